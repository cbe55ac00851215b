# Between the agent of a cluster and the scheduler. The agent's socket is a DEALER, the scheduler's a ROUTER.
# One agent speaks for all its workers; `worker` is a worker's position in the list that the agent's hello gives.

@0xc37d5fe81a60b294;

using Common = import "common.capnp";

struct AgentToScheduler {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 3: a message of another direction is refused
  number @2 :UInt64;        # counts the messages of this session this way, from 1; 0 = not counted, see README.md
  heard @3 :UInt64;         # the highest number that has come the other way

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
      runSplit @17 :RunSplit;
      objectPart @18 :ObjectPart;
      workersPaused @19 :WorkersPaused;
    }
  }
}

struct SchedulerToAgent {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 4: a message of another direction is refused
  number @2 :UInt64;        # counts the messages of this session this way, from 1; 0 = not counted, see README.md
  heard @3 :UInt64;         # the highest number that has come the other way

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
  pythonVersion @3 :List(Text);        # "3.11.7", or what else it is written in
  cloudpickleVersion @4 :List(Text);   # version of the library that pickles functions; empty if it does not pickle
  agentId @5 :Data;                     # id column: random and secret; the same on the next connection means the same agent
  workerNames @6 :List(Text);          # names of the workers, separated by commas
  held @7 :List(Data);                 # tasks the agent still has: 16 bytes id, UInt32 attempt, UInt16 worker, little-endian, each
  agentToken @8 :Data;                     # id column: random; clients inside the agent's tasks show it to say where they are
  resumes @9 :Data;                    # byte column: 1 = the agent goes on with its session, if it still exists; 2 = it had one and begins anew; 0 = it is new
  heard @10 :Data;                     # UInt64 column: if it goes on: the highest number of the scheduler that has come
  agents @11 :Data;                    # UInt32 column: how many agents its last scheduler had, itself among them; 0 = it had none
  capabilities @12 :List(Text);        # resources of the node that tasks may ask for: names and amounts, "gpu=2,licence=1"
  dial @13 :Data;                      # UInt32 column: which of the agent's connections this is, counted from 1; 0 = it does not count them
  begun @14 :Data;                     # UInt32 column: if it goes on: the dial of the connection on which its session began; 0 = it does not count
  closed @15 :Data;                    # UInt32 column: so many of the workers, the last ones, take no tasks now, see WorkersClosed
  namedOnly @16 :Data;                 # byte column: 1 = its workers run named functions and nothing else, see README.md; 0 = they run pickled ones
  takesRows @17 :Data;                 # byte column: 1 = it takes tasks of many rows, see README.md; 0 = each row is a task
  textHash @18 :Data;                  # UInt32 column: the hash of a text in its workers, see README.md; 1 = its user wants random ones; 0 = not known
  heldOwners @19 :List(Data);          # to whom the tasks in held belong: UInt64 each, the owner in their RunTask; empty = 0 for all
}

struct WorkersClosed {
  # What runs the tasks can take more of them at once now, or fewer: so many workers, the last ones, take none from now on,
  # and give back those that wait. The others take tasks. Said first in a session that begins anew.
  count @0 :UInt32;        # number of items
  closed @1 :Data;         # UInt32 column: how many
}

struct WorkersPaused {
  # So many workers begin nothing from now on, because memory and disk for values are full on their host. Said when the number
  # changes, and first in a session that begins anew if there are any.
  count @0 :UInt32;        # number of items
  held @1 :Data;           # UInt32 column: how many
}

struct RunTask {
  # Run a task on a worker. Answered by exactly one RunResult, on this connection or on a later one, unless it is given back.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the tasks
  worker @2 :Data;             # UInt16 column: the worker
  attempt @3 :Data;            # UInt32 column: no other run of this scheduler has the same number; later ones are greater, modulo 2^32; repeated in the result
  functionId @4 :Data;         # id column: the objects that hold the functions
  payload @5 :List(Data);      # the block of arguments, see README.md
  objectIds @6 :List(Data);    # ids of the objects among the arguments, one after the other
  priority @7 :Data;           # Int32 column: as in Task: tasks of a higher one are run first, those of the same one in their order
  name @8 :List(Text);         # as in Task, for the log
  options @9 :List(Data);      # as in Task
  account @10 :Data;           # UInt32 column: the account of the client that it is for, for clients inside the task, see README.md
  frames @11 :Data;            # UInt32 column: number of payload frames, as in Task
  rows @12 :Data;              # UInt32 column: as in Task
  owner @13 :Data;             # UInt64 column: the tag of the owner of that account, for clients inside the task, see README.md
}

struct RunSplit {
  # Something has happened to a row of this task: each of its rows is a task of its own from now on, with this attempt.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks of many rows
  worker @2 :Data;            # UInt16 column: the worker that has them
  attempt @3 :Data;           # UInt32 column: as in RunTask
  rows @4 :Data;              # UInt32 column: as in RunTask
}

struct RunCancel {
  # Drop the task from the worker's queue, or stop it if it runs. Its RunResult says what became of it.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: the attempt that is meant
}

struct RecallRequest {
  # Other workers are idle: give back the task if it waits in the worker's queue. One that was handed to a processor stays.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: the attempt that is meant
}

struct RecallResponse {
  # The task never started and will not: it is the scheduler's again, and has no RunResult. What stays is not answered.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker that had it
  attempt @3 :Data;           # UInt32 column: as in the request
  rows @4 :Data;              # UInt32 column: as in RunTask
}

struct RunResult {
  # How one run of a task ended. Kept by the agent until the scheduler has heard it, see README.md.
  count @0 :UInt32;              # number of items
  taskId @1 :Data;               # id column: the tasks
  worker @2 :Data;               # UInt16 column: the worker
  attempt @3 :Data;              # UInt32 column: as in RunTask
  status @4 :Data;               # byte column: as in client.capnp, TaskResult
  payload @5 :List(Data);        # success: the result; failed: a TaskFailure; else: a sentence, UTF-8
  durationUs @6 :Data;           # UInt32 column: wall time of the call in microseconds
  frames @7 :Data;               # UInt32 column: how many of the message's payload frames are this item's result; 0 if it is in the payload
  profile @8 :List(Data);        # what the task took, if that was asked for, see README.md; empty if it was not measured
  failure @9 :List(Text);        # failed: type and message, "ValueError: too small", 200 bytes at most, for people who watch; else empty
  location @10 :List(Data);      # where the agent keeps the result, see README.md; empty: it is in the frames or the payload
  rows @11 :Data;                # UInt32 column: as in RunTask: these rows have ended; success: the payload has a block for each
  statuses @12 :List(Data);      # success of rows: a byte for each, its status; empty = all have succeeded
}

struct ObjectKept {
  # The agent is back on a new connection and still has a copy of the object. Answered by a delete if it is not needed.
  count @0 :UInt32;    # number of items
  objectId @1 :Data;   # id column: the objects
}

struct PartRequest {
  # A reader who cannot open a location needs a part of the value there. Answered by ObjectPart, in any order.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  location @2 :List(Data);   # of the result that is meant, and not a newer one; empty: of the copy
  offset @3 :Data;           # UInt64 column: where the part begins, in all frames together, one after the other
  mostBytes @4 :Data;        # UInt32 column: how long it is, unless the value ends before
}

struct ObjectPart {
  # A part of a value, or the news that the value is not here.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  location @2 :List(Data);   # as it was asked for
  offset @3 :Data;           # UInt64 column: as it was asked for
  sizes @4 :List(Data);      # of the part at 0: the bytes of each frame of the value, as a row of UInt64; else empty
  frames @5 :Data;           # UInt32 column: how many of the message's payload frames are its bytes, one after the other
  reason @6 :List(Text);     # why the value is not here, as a sentence; empty: it is
}

struct RunBlocked {
  # The task waits for others, its children most likely, and gives up its place at the worker. Said again on a new
  # connection, as long as it waits. Its end needs no RunUnblocked.
  count @0 :UInt32;           # number of items
  taskId @1 :Data;            # id column: the tasks
  worker @2 :Data;            # UInt16 column: the worker
  attempt @3 :Data;           # UInt32 column: as in RunTask
}

struct RunUnblocked {
  # The task goes on and takes its place again.
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
  sentNs @1 :Data;            # UInt64 column: as it came
  agents @2 :Data;            # UInt32 column: how many agents the scheduler has; the agent says it to the next scheduler
  valueBytes @3 :Data;        # UInt64 column: the most bytes of one value that the scheduler takes now, 0 = not said
}

struct ProcessorGone {
  # A processor has ended: the clients in it are gone, their tasks are cancelled and their objects released.
  count @0 :UInt32;               # number of items
  processor @1 :Data;             # UInt32 column: its number, never used again by the agent
}

struct ProcessorNews {
  # A client inside a processor has said that it only waits (ClientResting). While nothing is on the way to it, its process may
  # be stopped; the next item that is said to it is announced by one of these.
  count @0 :UInt32;              # number of items
  processor @1 :Data;            # UInt32 column: the number of the processor
  wait @2 :Data;                 # UInt32 column: as in ClientResting
  hasNews @3 :Data;              # byte column: 0 = nothing is on the way in either direction; 1 = something was said to it
}

struct DrainRequest {
  # The agent will leave: its workers get no new tasks. It gives back those that wait, and says goodbye after the others.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct DisconnectRequest {
  # The agent leaves in good order. Its unfinished tasks go to other workers.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct DisconnectResponse {
  # The agent may go; unasked: the agent must go, because the scheduler shuts down.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log
}

struct WatchRequest {
  # Somebody watches, or nobody does any more: report what your workers do, from now on, in this interval. An agent that
  # does not report is shown without figures.
  count @0 :UInt32;        # number of items
  intervalMs @1 :Data;     # UInt32 column: so often; 0 = not any more
  parts @2 :Data;          # byte column: what is asked for, a sum: 1 = workers, 2 = processors, 4 = bins, 8 = functions, 16 = runs
}

struct RestartRequest {
  # Go on with fresh worker processes: each of yours ends after the tasks that it has. What comes after this runs in fresh ones.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the agent
}

struct LeaveRequest {
  # Leave when the tasks that run have ended, however long that takes: begin with a DrainRequest.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the agent
}

struct AgentState {
  # What an agent and its workers do. Answers a WatchRequest, again and again, until another one comes. Not counted: a
  # report that is lost is not said again.
  count @0 :UInt32;             # number of items
  host @1 :List(Text);          # the name of its host
  engine @2 :List(Text);        # what its workers run tasks with
  pid @3 :Data;                 # UInt32 column: its process; 0 = unknown, also below
  cpuPermille @4 :Data;         # UInt32 column: of one core, since the report before
  rssBytes @5 :Data;            # UInt64 column: its resident memory
  freeBytes @6 :Data;           # UInt64 column: memory that its host has left
  lagUs @7 :Data;               # UInt32 column: how long its last heartbeat took to the scheduler and back
  workers @8 :List(Data);       # rows of 40 bytes, one for each worker, in the order of their names, see README.md
  processors @9 :List(Data);    # rows of 48 bytes
  bins @10 :List(Data);         # rows of 32 bytes, for workers that ended a run since the report before
  functions @11 :List(Data);    # rows of 164 bytes, for functions of which a run ended since the report before, or is here
  runs @12 :List(Data);         # rows of 32 bytes: the runs that execute, those that began first
  hotBytes @13 :Data;            # UInt64 column: shared memory that counts for its values
  hotMostBytes @14 :Data;        # UInt64 column: how much all agents of its user on its host may have
  coldBytes @15 :Data;           # UInt64 column: its values on disk
  coldMostBytes @16 :Data;       # UInt64 column: how much all of these agents may have there; 0 = none
  spilledBytes @17 :Data;        # UInt64 column: what it has written there since its start
  readBytes @18 :Data;           # UInt64 column: what it has read back from there
  heldWorkers @19 :Data;         # UInt32 column: workers that begin nothing, because memory and disk for values are full
}

struct RunQuestion {
  # Where is a run? Answered by a RunStatus. Not counted: a lost answer is of no use any more.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the task
  worker @2 :Data;             # UInt16 column: position of the worker
  attempt @3 :Data;            # UInt32 column: the attempt
}

struct RunStatus {
  # Where a run is. Not counted.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the task
  worker @2 :Data;             # UInt16 column: position of the worker
  attempt @3 :Data;            # UInt32 column: the attempt
  state @4 :Data;              # byte column: 0 = not known, 1 = in the queue of the worker, 2 = executed, 3 = waits for other tasks, 4 = not begun, since there is no room for results
  runMs @5 :Data;              # UInt32 column: milliseconds since the call began; of a run in the queue, of the one that the worker executes; 0 = not known
  pid @6 :Data;                # UInt32 column: the process that executes it; 0 = not known
}

struct RunOutput {
  # A line that a task has written. Said before the result of the run; a line that is lost is not said again.
  count @0 :UInt32;      # number of items
  taskId @1 :Data;       # id column: the tasks
  worker @2 :Data;       # UInt16 column: the worker
  attempt @3 :Data;      # UInt32 column: as in RunTask
  stream @4 :Data;       # byte column: 0 = standard output, 1 = standard error, 2 = logging
  timeUs @5 :Data;       # UInt64 column: when: microseconds since 1970, by the clock of the worker's host
  dropped @6 :Data;      # UInt32 column: so many lines before this one were left out
  text @7 :List(Text);   # the line, without its end, 8192 characters at most; empty if only dropped is said
}
