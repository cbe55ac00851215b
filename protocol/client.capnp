# Between a client and the scheduler. The client's socket is a DEALER, the scheduler's a ROUTER.

@0xa91b6e2f7c4d8053;

using Common = import "common.capnp";

struct ClientToScheduler {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 1: a message of another direction is refused
  number @2 :UInt64;        # number of the message in this session and direction, from 1; 0 = unnumbered, see README.md
  heard @3 :UInt64;         # the highest number received from the other side

  struct Batch {
    union {
      clientHello @0 :ClientHello;
      task @1 :Task;
      taskCancel @2 :TaskCancel;
      objectInstruction @3 :Common.ObjectInstruction;
      objectRequest @4 :Common.ObjectRequest;
      clientHeartbeat @5 :ClientHeartbeat;
      clientDisconnect @6 :ClientDisconnect;
      inputResult @7 :InputResult;
      clientResting @8 :ClientResting;
      chunk @9 :Common.Chunk;
      infoRequest @10 :InfoRequest;
      explainRequest @11 :ExplainRequest;
      outputRequest @12 :OutputRequest;
      jobRequest @13 :JobRequest;
    }
  }
}

struct SchedulerToClient {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 2: a message of another direction is refused
  number @2 :UInt64;        # number of the message in this session and direction, from 1; 0 = unnumbered, see README.md
  heard @3 :UInt64;         # the highest number received from the other side

  struct Batch {
    union {
      helloReply @0 :Common.HelloReply;
      helloRequest @1 :Common.HelloRequest;
      taskResult @2 :TaskResult;
      objectResponse @3 :Common.ObjectResponse;
      clientHeartbeatEcho @4 :ClientHeartbeatEcho;
      clientShutdownResponse @5 :ClientShutdownResponse;
      objectRequest @6 :Common.ObjectRequest;
      chunk @7 :Common.Chunk;
      infoResponse @8 :InfoResponse;
      workerDetails @9 :WorkerDetails;
      explainResponse @10 :ExplainResponse;
      outputLine @11 :OutputLine;
      outputResponse @12 :OutputResponse;
      jobResponse @13 :JobResponse;
      objectDetails @14 :ObjectDetails;
    }
  }
}

struct ClientHello {
  # The first message of a client on every connection.
  count @0 :UInt32;                    # number of items
  protocolVersion @1 :Data;            # UInt16 column: the protocol version that the client speaks
  packageVersion @2 :List(Text);       # version of its package
  pythonVersion @3 :List(Text);        # "3.11.7", or the language that it is written in
  cloudpickleVersion @4 :List(Text);   # version of the library that pickles its functions; empty if it does not pickle
  clientId @5 :Data;                   # id column: random and secret; the same on the next connection means the same client
  agentToken @6 :Data;                     # id column: of a client inside a task, the agentToken of the agent that runs it; otherwise zero
  processor @7 :Data;                  # UInt32 column: of a client inside a task: the number of its processor; see README.md
  resumes @8 :Data;                    # byte column: 1 = the client resumes its session, if it still exists; 2 = it had a session and starts a new one; 0 = it is new
  heard @9 :Data;                      # UInt64 column: to resume: the highest number received from the scheduler
  account @10 :Data;                   # UInt32 column: if resumes is not 0: the number of its account, which its tasks at agents still name
  dial @11 :Data;                      # UInt32 column: the number of the client's connection, from 1; 0 = it does not count them
  label @12 :List(Text);               # the program and its place, for people: "prices.py 4711, alice@host"
  begun @13 :Data;                     # UInt32 column: to resume: the dial of the connection on which its session started; 0 = it does not count them
}

struct Task {
  # Run a function, when the results that it needs are there. The client chooses the id, and receives exactly one
  # TaskResult for it, unless the task is unwanted.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the tasks
  functionId @2 :Data;         # id column: the objects that hold the functions; zero: nothing runs, see README.md
  payload @3 :List(Data);      # the block of arguments, see README.md
  objectIds @4 :List(Data);    # ids of the objects among the arguments, one after the other
  priority @5 :Data;           # Int32 column: 65,536 times the depth of the task, plus the priority that its user gave; the greater goes first
  name @6 :List(Text);         # the user's name of the task; empty: the name of its function's object
  options @7 :List(Data);      # RunOptions of common.capnp; empty: all have their defaults
  account @8 :Data;            # UInt32 column: of a client inside a task: the account of that task, as in its RunTask; otherwise 0
  frames @9 :Data;            # UInt32 column: number of payload frames, which belong to the arguments of kind 4 in the block, see README.md; each row has the same number
  rows @10 :Data;              # UInt32 column: number of calls, at most 4,096, see README.md; 0 = one call
  owner @11 :Data;             # UInt64 column: of a client inside a task: the owner in its RunTask; otherwise 0
  graphId @12 :Data;           # id column: the graph of each; zero: it is in no graph
  graphTasks @13 :Data;        # UInt32 column: number of tasks of the graph; 0: it is in no graph
  dependencies @14 :List(Data); # positions of the tasks of its graph whose results it needs, each once: UInt32, little-endian, one after the other
  inputs @15 :List(Data);      # ids of the other tasks of this client whose results it needs, each once, one after the other
  unwanted @16 :Data;          # byte column: 1 = only other tasks need its result, and it has no TaskResult
  namedByKey @17 :Data;        # byte column: 1 = its name is its key in the graph: viewers see it, and its RunTask has no name
}

struct TaskCancel {
  # Do not run the task, or stop it. Its result still follows: canceled, or another one if it ended before.
  count @0 :UInt32;   # number of items
  taskId @1 :Data;    # id column: the tasks
  waiting @2 :Data;   # byte column: 1 = only if it has not started; otherwise it continues
  rows @3 :Data;      # UInt32 column: as in Task
  graphId @4 :Data;   # id column: cancel all tasks of this graph, of which the task is one; zero: cancel the task only
}

struct TaskResult {
  # How a task ended.
  count @0 :UInt32;         # number of items
  taskId @1 :Data;          # id column: the tasks
  status @2 :Data;          # byte column: 0 success, 1 failed, 2 canceled, 3 processor died, 4 worker died, 5 no worker,
                            # 6 not found, 7 missing objects, 8 internal error, 9 timed out, 10 out of memory
  payload @3 :List(Data);   # success: the result; failed: a TaskFailure; otherwise: a sentence, UTF-8
  size @4 :Data;            # UInt64 column: 0, or the bytes of a large result: request the object with the task's id, then delete it
  profile @5 :List(Data);   # time and memory, see README.md; empty if not measured
  rows @6 :Data;            # UInt32 column: as in Task: all of these rows have ended; success: the payload has a block for each
  statuses @7 :List(Data);  # success of rows: the status of each row as a byte; empty = all succeeded
  durationUs @8 :Data;      # UInt32 column: of rows of a map: microseconds of all of them; otherwise 0
}

struct InputResult {
  # The result of a task of this client that has ended, for the tasks that have it among their inputs.
  count @0 :UInt32;         # number of items
  taskId @1 :Data;          # id column: the tasks whose results these are
  status @2 :Data;          # byte column: as in TaskResult
  payload @3 :List(Data);   # as in TaskResult
  size @4 :Data;            # UInt64 column: 0, or the bytes of a large result, which is the stored object with the task's id
}

struct ClientHeartbeat {
  # Sent every few seconds; a silent client is taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: the client's own clock in nanoseconds; echoed as it is
  hasUnsent @2 :Data;         # byte column: 1 = some open work has not been sent yet; 0 = all was sent, or unknown
}

struct ClientHeartbeatEcho {
  # The answer to a heartbeat; a silent scheduler is taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: as in the heartbeat
  valueBytes @2 :Data;        # UInt64 column: the most bytes of one value that the scheduler accepts now, 0 = unknown
}

struct ClientResting {
  # Of a client inside a task: the task only waits, and the client sent everything else before this.
  count @0 :UInt32;         # number of items
  wait @1 :Data;            # UInt32 column: the number of the wait, which the agent that runs the task knows too
  heard @2 :Data;           # UInt64 column: the highest number received from the scheduler
}

struct ExplainRequest {
  # Report what a task waits for. Answered by one ExplainResponse, unless the task ends before.
  count @0 :UInt32;        # number of items
  taskId @1 :Data;         # id column: the tasks
  graphId @2 :Data;        # id column: the graph of each task; zero if it is in no graph
  wanted @3 :Data;         # byte column: 1 = the client waits for its result: before the answer, if its worker is paused, it becomes the next task to start
}

struct ExplainResponse {
  # Where a task is, and what it waits for.
  count @0 :UInt32;        # number of items
  taskId @1 :Data;         # id column: the task
  state @2 :List(Text);    # as on the monitor: inactive, running, canceling; empty: the scheduler does not have the task
  waitsFor @3 :List(Text); # one or two words, see README.md
  sentence @4 :List(Text); # the same for people, with advice
  worker @5 :List(Text);   # the worker that has it, or ran it last; empty: no worker
  tries @6 :Data;          # UInt32 column: the number of the present try, from 1; 0: unknown
  past @7 :List(Text);     # why the earlier tries ended, for people
  stateMs @8 :Data;        # UInt64 column: the least number of milliseconds that it has been in this state; 0 = unknown
}

struct ClientDisconnect {
  # The client leaves. Its open tasks are cancelled and its objects are released.
  count @0 :UInt32;   # number of items
  kind @1 :Data;      # byte column: 0 = disconnect, 1 = shut down the scheduler and all workers as well
}

struct ClientShutdownResponse {
  # The answer to a ClientDisconnect of kind 1.
  count @0 :UInt32;        # number of items
  accepted @1 :Data;       # byte column: 1 = it shuts down, 0 = it refuses
  reason @2 :List(Text);   # why it refuses, as a sentence
}

struct InfoRequest {
  # Report the connected workers and clients. A request with the same number replaces the earlier one.
  count @0 :UInt32;      # number of items
  number @1 :Data;       # UInt32 column: chosen by the client
  detailed @2 :Data;     # byte column: 1 = describe each worker too; 2 = describe the objects of this client
  workers @3 :Data;      # UInt32 column: answer again whenever workers connect, until this number is connected; 0 = answer once
  restart @4 :Data;      # byte column: 1 = before the answer, let all agents replace their worker processes
  leave @5 :List(Text);  # names of workers, separated by commas, whose agents leave: requested before the answer; empty: no agent
  cancel @6 :List(Text); # short ids of tasks of any client, in hex, separated by commas: cancelled before the answer
}

struct InfoResponse {
  # The answer to an InfoRequest. A detailed one follows the descriptions.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  workers @2 :Data;        # UInt32 column: number of connected workers
  clusters @3 :Data;       # UInt32 column: number of their agents
  clients @4 :Data;        # UInt32 column: number of connected clients, including those inside tasks
  waitingTasks @5 :Data;   # UInt32 column: number of tasks that wait at the scheduler for a worker
  refused @6 :List(Text);  # why the scheduler did not do what the request wants of agents; empty if it did
}

struct WorkerDetails {
  # One connected worker.
  count @0 :UInt32;               # number of items
  number @1 :Data;                # UInt32 column: of the request
  name @2 :List(Text);            # its name
  cluster @3 :Data;               # UInt32 column: the position of its agent in this answer; workers of one agent have the same
  tasks @4 :Data;                 # UInt32 column: number of its tasks: running, blocked, queued
  blockedTasks @5 :Data;          # UInt32 column: how many of these wait for nested tasks
  pythonVersion @6 :List(Text);   # of its agent's hello
  packageVersion @7 :List(Text);  # of its agent's hello
  capabilities @8 :List(Text);    # of its agent's hello
}

struct ObjectDetails {
  # One object of the requesting client.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  object @2 :Data;         # id column: its id; of a result the id of its task
  name @3 :List(Text);     # its client's name of it; of a result the name of its function
  kind @4 :Data;           # byte column: 0 = a stored value, 1 = a function, 2 = an argument of one task, 3 = a result
  place @5 :Data;          # byte column: where its bytes are: 0 = here, 1 = with the client, 2 = with an agent, 3 = lost
  sizeBytes @6 :Data;      # UInt64 column: its size, wherever its bytes are
  copies @7 :Data;         # UInt32 column: number of agents that have fetched it
  users @8 :Data;          # UInt32 column: number of open tasks that need it
}

struct OutputRequest {
  # Send the lines that a task has written: answered by these and one OutputResponse. The zero id: send the lines that all
  # tasks of this client write from now on; that has no response.
  count @0 :UInt32;   # number of items
  number @1 :Data;    # UInt32 column: chosen by the client
  taskId @2 :Data;    # id column: the task; zero: all
  report @3 :Data;    # byte column: 1 = only its latest progress report; 0 = its lines, without reports
}

struct OutputLine {
  # A line that a task of this client has written.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  taskId @2 :Data;         # id column: the task
  stream @3 :Data;         # byte column: 0 = standard output, 1 = standard error, 2 = logging, 3 = report: "40% of the paths"
  timeUs @4 :Data;         # UInt64 column: microseconds since 1970, by the clock of the worker's host
  dropped @5 :Data;        # UInt32 column: number of lines left out just before this one
  name @6 :List(Text);     # the name of the task
  worker @7 :List(Text);   # the worker that ran it
  text @8 :List(Text);     # the line without its line end, 8192 characters at most; empty if only dropped is reported
}

struct OutputResponse {
  # All stored lines of the task have been sent.
  count @0 :UInt32;   # number of items
  number @1 :Data;    # UInt32 column: of the request
  dropped @2 :Data;   # UInt32 column: number of its lines left out in all
}

struct JobRequest {
  # A request about a job that the scheduler keeps. Resent in a new session, it does nothing twice.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: chosen by the client
  verb @2 :Data;           # byte column: the kind of request, see README.md
  name @3 :List(Text);     # the job
  first @4 :Data;          # UInt64 column: a row, a position among ended rows, or a revision
  amount @5 :Data;         # UInt32 column: how many rows, flags, a kind or a revision, as the verb says
  body @6 :List(Data);     # terms as JSON, a digest, or an id, as the verb says
  record @7 :List(Data);   # 8 bytes: the record, and 4 more: the work; empty: the job that has the name now
  frames @8 :Data;         # UInt32 column: number of frames of each item, which follow the message: digests and arguments of rows, or an object
}

struct JobResponse {
  # The answer to a JobRequest, after any number of preliminary ones with the status 4.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  status @2 :Data;         # byte column: 0 = known, 1 = rows, 2 = refused, 3 = there is no such job, 4 = it waits, 5 = conflict, 6 = changed
  first @3 :Data;          # UInt64 column: in answer to a read, the position from which the next one continues; else a row
  amount @4 :Data;         # UInt32 column: how many rows
  body @5 :List(Data);     # JSON, or the heads of rows, see README.md
  reason @6 :List(Text);   # of a refusal, as a sentence
  frames @7 :Data;         # UInt32 column: number of frames of each item, which follow the message: the values of the rows, one after the other
}
