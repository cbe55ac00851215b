# Between the agent of a cluster and the scheduler. The agent's socket is a DEALER, the scheduler's a ROUTER.
# An agent represents all its workers; `worker` is the position of a worker in the list in the agent's hello.

@0xc37d5fe81a60b294;

using Common = import "common.capnp";

struct AgentToScheduler {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 3: a message of another direction is refused
  number @2 :UInt64;        # number of the message in this session and direction, from 1; 0 = unnumbered, see README.md
  heard @3 :UInt64;         # the highest number received from the other side

  struct Batch {
    union {
      workerHello @0 :WorkerHello;
      runResult @1 :RunResult;
      objectRequest @2 :Common.ObjectRequest;
      workerHeartbeat @3 :WorkerHeartbeat;
      disconnectRequest @4 :DisconnectRequest;
      objectKept @5 :ObjectKept;
      processorGone @6 :ProcessorGone;
      recallResponse @7 :RecallResponse;
      runBlocked @8 :RunBlocked;
      runUnblocked @9 :RunUnblocked;
      drainRequest @10 :DrainRequest;
      chunk @11 :Common.Chunk;
      agentState @12 :AgentState;
      runOutput @13 :RunOutput;
      runStatus @14 :RunStatus;
      workersClosed @15 :WorkersClosed;
      objectResponse @16 :Common.ObjectResponse;
      objectPart @17 :ObjectPart;
      workersPaused @18 :WorkersPaused;
    }
  }
}

struct SchedulerToAgent {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 4: a message of another direction is refused
  number @2 :UInt64;        # number of the message in this session and direction, from 1; 0 = unnumbered, see README.md
  heard @3 :UInt64;         # the highest number received from the other side

  struct Batch {
    union {
      helloReply @0 :Common.HelloReply;
      helloRequest @1 :Common.HelloRequest;
      runTask @2 :RunTask;
      runCancel @3 :RunCancel;
      objectResponse @4 :Common.ObjectResponse;
      objectInstruction @5 :Common.ObjectInstruction;
      workerHeartbeatEcho @6 :WorkerHeartbeatEcho;
      disconnectResponse @7 :DisconnectResponse;
      recallRequest @8 :RecallRequest;
      processorNews @9 :ProcessorNews;
      chunk @10 :Common.Chunk;
      watchRequest @11 :WatchRequest;
      restartRequest @12 :RestartRequest;
      runQuestion @13 :RunQuestion;
      leaveRequest @14 :LeaveRequest;
      objectRequest @15 :Common.ObjectRequest;
      partRequest @16 :PartRequest;
    }
  }
}

struct WorkerHello {
  # The first message of an agent on every connection.
  count @0 :UInt32;                    # number of items
  protocolVersion @1 :Data;            # UInt16 column: the protocol version that the agent speaks
  packageVersion @2 :List(Text);       # version of its package
  pythonVersion @3 :List(Text);        # "3.11.7", or the language that it is written in
  cloudpickleVersion @4 :List(Text);   # version of the library that pickles functions; empty if it does not pickle
  agentId @5 :Data;                     # id column: random and secret; the same on the next connection means the same agent
  workerNames @6 :List(Text);          # names of the workers, separated by commas
  held @7 :List(Data);                 # runs that the agent still has, each as 16 bytes id, UInt32 attempt, UInt16 worker, UInt32 rows, little-endian
  agentToken @8 :Data;                     # id column: random; clients inside the agent's tasks prove with it where they run
  resumes @9 :Data;                    # byte column: 1 = the agent resumes its session, if it still exists; 2 = it had a session and starts a new one; 0 = it is new
  heard @10 :Data;                     # UInt64 column: to resume: the highest number received from the scheduler
  agents @11 :Data;                    # UInt32 column: number of agents of its last scheduler, including itself; 0 = it had no scheduler
  capabilities @12 :List(Text);        # resources of the node that tasks may ask for: names and amounts, "gpu=2,licence=1"
  dial @13 :Data;                      # UInt32 column: the number of the agent's connection, from 1; 0 = it does not count them
  begun @14 :Data;                     # UInt32 column: to resume: the dial of the connection on which its session started; 0 = it does not count them
  closed @15 :Data;                    # UInt32 column: number of workers, the last ones, that take no tasks now, see WorkersClosed
  namedOnly @16 :Data;                 # byte column: 1 = its workers run named functions only, see README.md; 0 = they run pickled ones
  takesRows @17 :Data;                 # byte column: 1 = it accepts tasks of many rows, see README.md; 0 = each row is a task
  textHash @18 :Data;                  # UInt32 column: the hash of a text in its workers, see README.md; 1 = random hash seeds; 0 = unknown
  heldOwners @19 :List(Data);          # the owners of the runs in held: UInt64 each, the owner in their RunTask; empty = 0 for all
}

struct WorkersClosed {
  # The engine can run more tasks at once now, or fewer: the last `closed` workers stop taking tasks and return their queued
  # ones. The others take tasks. Sent first in a new session.
  count @0 :UInt32;        # number of items
  closed @1 :Data;         # UInt32 column: number of workers
}

struct WorkersPaused {
  # The number of paused workers, which start nothing because memory and disk for values are full on their host. Sent when
  # the number changes, and first in a new session if it is not 0.
  count @0 :UInt32;        # number of items
  held @1 :Data;           # UInt32 column: number of workers
}

struct RunTask {
  # Run a task on a worker. Answered by exactly one RunResult, on this or a later connection, unless the task is returned.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the tasks
  worker @2 :Data;             # UInt16 column: the worker
  attempt @3 :Data;            # UInt32 column: unique among all runs of this scheduler; later ones are greater, modulo 2^32; repeated in the result
  functionId @4 :Data;         # id column: the objects that hold the functions
  payload @5 :List(Data);      # the block of arguments, see README.md
  objectIds @6 :List(Data);    # ids of the objects among the arguments, one after the other
  priority @7 :Data;           # Int32 column: as in Task: tasks of higher priority run first, those of equal priority in their order
  name @8 :List(Text);         # as in Task, for the log
  options @9 :List(Data);      # as in Task
  account @10 :Data;           # UInt32 column: the account that the task counts for, for clients inside the task, see README.md
  frames @11 :Data;            # UInt32 column: number of payload frames, as in Task
  rows @12 :Data;              # UInt32 column: as in Task
  owner @13 :Data;             # UInt64 column: the tag of the owner of that account, for clients inside the task, see README.md
}

struct RunCancel {
  # Drop the task from the worker's queue, or stop it if it runs. Its RunResult reports the outcome.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: the attempt to which this applies
  rows @4 :Data;              # UInt32 column: as in RunTask; 0 = a single task, or one row of a task with rows
}

struct RecallRequest {
  # Other workers are idle: return the task if it is in the worker's queue. A task that a processor has received stays.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: the attempt to which this applies
}

struct RecallResponse {
  # The task has not started and belongs to the scheduler again. It has no RunResult. A task that stays has no response.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker that had it
  attempt @3 :Data;           # UInt32 column: as in the request
  rows @4 :Data;              # UInt32 column: as in RunTask
}

struct RunResult {
  # How one run of a task ended. The agent keeps it until the scheduler acknowledges it, see README.md.
  count @0 :UInt32;              # number of items
  taskId @1 :Data;               # id column: the tasks
  worker @2 :Data;               # UInt16 column: the worker
  attempt @3 :Data;              # UInt32 column: as in RunTask
  status @4 :Data;               # byte column: as in client.capnp, TaskResult
  payload @5 :List(Data);        # success: the result; failed: a TaskFailure; otherwise: a sentence, UTF-8
  durationUs @6 :Data;           # UInt32 column: wall time of the call in microseconds, rounded up; 0 = not measured
  frames @7 :Data;               # UInt32 column: number of payload frames with this item's result; 0 if it is in the payload
  profile @8 :List(Data);        # time and memory, if requested, see README.md; empty if not measured
  failure @9 :List(Text);        # failed: type and message, "ValueError: too small", 200 bytes at most, for monitors; otherwise empty
  location @10 :List(Data);      # where the agent keeps the result, see README.md; empty: it is in the frames or the payload
  rows @11 :Data;                # UInt32 column: as in RunTask: these rows have ended; success: the payload has a block for each
  statuses @12 :List(Data);      # success of rows: the status of each row as a byte; empty = all succeeded
  running @13 :Data;             # UInt32 column: not 0: the task ended early, see README.md; 1 + number of the row that goes on
}

struct ObjectKept {
  # The agent reconnected and still has a copy of the object. Answered by a delete if the copy is not needed.
  count @0 :UInt32;    # number of items
  objectId @1 :Data;   # id column: the objects
}

struct PartRequest {
  # Send a part of a value, to a reader that cannot open its location. Answered by ObjectPart, in any order.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  location @2 :List(Data);   # of this result, and not of a newer one; empty: of the copy
  offset @3 :Data;           # UInt64 column: where the part begins in the joined frames
  mostBytes @4 :Data;        # UInt32 column: its length, unless the value ends before
}

struct ObjectPart {
  # A part of a value, or the report that the value is not here.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  location @2 :List(Data);   # as in the request
  offset @3 :Data;           # UInt64 column: as in the request
  sizes @4 :List(Data);      # of the part at 0: the bytes of each frame of the value, as a row of UInt64; otherwise empty
  frames @5 :Data;           # UInt32 column: number of payload frames with its bytes, one after the other
  reason @6 :List(Text);     # why the value is not here, as a sentence; empty if it is
}

struct RunBlocked {
  # The task waits for other tasks, usually nested ones, and gives up its slot. Sent again on a new connection while it
  # waits. Not followed by a RunUnblocked if the task ends.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: as in RunTask
}

struct RunUnblocked {
  # The task resumes and occupies its slot again.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: as in RunTask
}

struct WorkerHeartbeat {
  # Sent every few seconds; the workers of a silent agent are taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: the agent's own clock in nanoseconds; echoed as it is
}

struct WorkerHeartbeatEcho {
  # The answer to a heartbeat; a silent scheduler is taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: as in the heartbeat
  agents @2 :Data;            # UInt32 column: number of agents of the scheduler, which the agent reports to the next scheduler
  valueBytes @3 :Data;        # UInt64 column: the most bytes of one value that the scheduler accepts now, 0 = unknown
}

struct ProcessorGone {
  # A processor and the clients in it have ended: their tasks are cancelled and their objects released.
  count @0 :UInt32;               # number of items
  processor @1 :Data;             # UInt32 column: its number, never used again by the agent
}

struct ProcessorNews {
  # A client inside a processor reported that it only waits (ClientResting). While no message is in transit to it, its process
  # may be stopped; one of these announces the next message to it.
  count @0 :UInt32;              # number of items
  processor @1 :Data;            # UInt32 column: the number of the processor
  wait @2 :Data;                 # UInt32 column: as in ClientResting
  hasNews @3 :Data;              # byte column: 0 = no message is in transit in either direction; 1 = a message was sent to it
}

struct DrainRequest {
  # The agent drains: its workers get no new tasks. It returns the queued ones, and leaves after the running ones.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct DisconnectRequest {
  # The agent leaves in order. Its unfinished tasks go to other workers.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct DisconnectResponse {
  # The agent may leave; without a request: the agent must leave, because the scheduler shuts down.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct WatchRequest {
  # Start or stop regular reports of the activity of the workers. An agent that does not report is shown without figures.
  count @0 :UInt32;        # number of items
  intervalMs @1 :Data;     # UInt32 column: milliseconds between two reports; 0 = stop
  parts @2 :Data;          # byte column: the parts of the report, a sum: 1 = workers, 2 = processors, 4 = bins, 8 = functions, 16 = runs
}

struct RestartRequest {
  # Replace the worker processes: each ends after its present tasks. Later tasks run in new processes.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the agent
}

struct LeaveRequest {
  # Leave when all running tasks have ended, however long that takes; start with a DrainRequest.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the agent
}

struct AgentState {
  # The activity of an agent and its workers. Sent repeatedly after a WatchRequest, until another one. Unnumbered: a lost
  # report is not resent.
  count @0 :UInt32;             # number of items
  host @1 :List(Text);          # the name of its host
  engine @2 :List(Text);        # the engine that runs its tasks
  pid @3 :Data;                 # UInt32 column: its process; 0 = unknown, also below
  cpuPermille @4 :Data;         # UInt32 column: of one core, since the previous report
  rssBytes @5 :Data;            # UInt64 column: its resident memory
  freeBytes @6 :Data;           # UInt64 column: free memory of its host
  lagUs @7 :Data;               # UInt32 column: round-trip time of its last heartbeat to the scheduler
  workers @8 :List(Data);       # rows of 40 bytes, one for each worker, in the order of their names, see README.md
  processors @9 :List(Data);    # rows of 48 bytes
  bins @10 :List(Data);         # rows of 32 bytes, for workers that ended a run since the previous report
  functions @11 :List(Data);    # rows of 164 bytes, for functions of which a run is here, or ended since the previous report
  runs @12 :List(Data);         # rows of 32 bytes: running tasks, those that started first
  hotBytes @13 :Data;            # UInt64 column: shared memory of its values
  hotMostBytes @14 :Data;        # UInt64 column: limit of shared memory for all agents of its user on its host
  coldBytes @15 :Data;           # UInt64 column: its values on disk
  coldMostBytes @16 :Data;       # UInt64 column: limit on disk for all of these agents; 0 = nothing may be stored there
  spilledBytes @17 :Data;        # UInt64 column: bytes written to disk since its start
  readBytes @18 :Data;           # UInt64 column: bytes read back from disk
  heldWorkers @19 :Data;         # UInt32 column: number of paused workers
}

struct RunQuestion {
  # Report the state of a run. Answered by a RunStatus. Unnumbered: a late answer is useless.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the task
  worker @2 :Data;             # UInt16 column: position of the worker
  attempt @3 :Data;            # UInt32 column: the attempt
}

struct RunStatus {
  # The state of a run. Unnumbered.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the task
  worker @2 :Data;             # UInt16 column: position of the worker
  attempt @3 :Data;            # UInt32 column: the attempt
  state @4 :Data;              # byte column: 0 = unknown, 1 = queued at the worker, 2 = running, 3 = blocked, 4 = not started, because the worker is paused
  runMs @5 :Data;              # UInt32 column: milliseconds since the call started; of a queued run: of the one that the worker runs; 0 = unknown
  pid @6 :Data;                # UInt32 column: the process that runs it; 0 = unknown
}

struct RunOutput {
  # A line that a task has written. Sent before the result of the run; a lost line is not resent.
  count @0 :UInt32;      # number of items
  taskId @1 :Data;       # id column: the tasks
  worker @2 :Data;       # UInt16 column: the worker
  attempt @3 :Data;      # UInt32 column: as in RunTask
  stream @4 :Data;       # byte column: 0 = standard output, 1 = standard error, 2 = logging
  timeUs @5 :Data;       # UInt64 column: microseconds since 1970, by the clock of the worker's host
  dropped @6 :Data;      # UInt32 column: number of lines left out just before this one
  text @7 :List(Text);   # the line without its line end, 8192 characters at most; empty if only dropped is reported
  row @8 :Data;          # UInt32 column: the row of the task that has written it; 0 for a task that is no range
}
