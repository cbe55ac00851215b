# Between a client and the scheduler. The client's socket is a DEALER, the scheduler's a ROUTER.

@0xa91b6e2f7c4d8053;

using Common = import "common.capnp";

struct ClientToScheduler {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 1: a message of another direction is refused
  number @2 :UInt64;        # counts the messages of this session this way, from 1; 0 = not counted, see README.md
  heard @3 :UInt64;         # the highest number that has come the other way

  struct Batch {
    union {
      clientHello @0 :ClientHello;
      task @1 :Task;
      taskCancel @2 :TaskCancel;
      objectInstruction @3 :Common.ObjectInstruction;
      objectRequest @4 :Common.ObjectRequest;
      clientHeartbeat @5 :ClientHeartbeat;
      clientDisconnect @6 :ClientDisconnect;
      graphTask @7 :GraphTask;
      graphNode @8 :GraphNode;
      graphTaskCancel @9 :GraphTaskCancel;
      clientResting @10 :ClientResting;
      chunk @11 :Common.Chunk;
      infoRequest @12 :InfoRequest;
      explainRequest @13 :ExplainRequest;
      graphInput @14 :GraphInput;
      outputRequest @15 :OutputRequest;
      jobRequest @16 :JobRequest;
    }
  }
}

struct SchedulerToClient {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 2: a message of another direction is refused
  number @2 :UInt64;        # counts the messages of this session this way, from 1; 0 = not counted, see README.md
  heard @3 :UInt64;         # the highest number that has come the other way

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
  pythonVersion @3 :List(Text);        # "3.11.7", or what else it is written in
  cloudpickleVersion @4 :List(Text);   # version of the library that pickles its functions; empty if it does not pickle
  clientId @5 :Data;                   # id column: random and secret; the same on the next connection means the same client
  agentToken @6 :Data;                     # id column: of a client inside a task, the agentToken of the agent that runs it; else zero
  processor @7 :Data;                  # UInt32 column: of a client inside a task: the number of its processor; see README.md
  resumes @8 :Data;                    # byte column: 1 = the client goes on with its session, if it still exists; 2 = it had one and begins anew; 0 = it is new
  heard @9 :Data;                      # UInt64 column: if it goes on: the highest number of the scheduler that has come
  account @10 :Data;                   # UInt32 column: if resumes is not 0: the number of its account, which its tasks at agents still name
  dial @11 :Data;                      # UInt32 column: which of the client's connections this is, counted from 1; 0 = it does not count them
  label @12 :List(Text);               # which program, and where, for people: "prices.py 4711, alice@host"
  begun @13 :Data;                     # UInt32 column: if it goes on: the dial of the connection on which its session began; 0 = it does not count
}

struct Task {
  # Run a function. The client makes up the id; it gets exactly one TaskResult for it.
  count @0 :UInt32;            # number of items
  taskId @1 :Data;             # id column: the tasks
  functionId @2 :Data;         # id column: the objects that hold the functions
  payload @3 :List(Data);      # the block of arguments, see README.md
  objectIds @4 :List(Data);    # ids of the objects among the arguments, one after the other
  priority @5 :Data;           # Int32 column: 65,536 times how deep the task is nested, plus the wish of its user; the greater goes first
  name @6 :List(Text);         # what the user calls the task; empty: it has the name of its function's object
  options @7 :List(Data);      # RunOptions of common.capnp; empty: all have their defaults
  account @8 :Data;            # UInt32 column: of a client inside a task: the account of that task, as in its RunTask; else 0
  frames @9 :Data;            # UInt32 column: number of payload frames; they are those of the arguments of kind 4 in the block, see README.md; of rows, each has as many
  rows @10 :Data;              # UInt32 column: so many calls, at most 4,096, see README.md; 0 = one call
  owner @11 :Data;             # UInt64 column: of a client inside a task: the owner in its RunTask; else 0
}

struct TaskCancel {
  # Never run the task, or stop it. Its result (canceled, or what it became before) still follows.
  count @0 :UInt32;   # number of items
  taskId @1 :Data;    # id column: the tasks
  waiting @2 :Data;   # byte column: 1 = only if it has not begun; else it goes on
  rows @3 :Data;      # UInt32 column: as in Task
}

struct TaskResult {
  # How a task ended.
  count @0 :UInt32;         # number of items
  taskId @1 :Data;          # id column: the tasks
  status @2 :Data;          # byte column: 0 success, 1 failed, 2 canceled, 3 processor died, 4 worker died, 5 no worker,
                            # 6 not found, 7 missing objects, 8 internal error, 9 timed out, 10 out of memory
  payload @3 :List(Data);   # success: the result; failed: a TaskFailure; else: a sentence, UTF-8
  size @4 :Data;            # UInt64 column: 0, or the bytes of a large result: request the object that has the task's id, then delete it
  profile @5 :List(Data);   # what it took, see README.md; empty if it was not measured
  rows @6 :Data;            # UInt32 column: as in Task: all of these rows have ended; success: the payload has a block for each
  statuses @7 :List(Data);  # success of rows: a byte for each, its status; empty = all have succeeded
  durationUs @8 :Data;      # UInt32 column: of a row of a map: microseconds of all its rows; else 0
}

struct GraphTask {
  # A graph of tasks: its nodes follow. The client makes up the id. Said again, its nodes follow again, from the first.
  count @0 :UInt32;             # number of items
  graphId @1 :Data;             # id column: the graphs
  nodeCount @2 :Data;           # UInt32 column: how many nodes the graph has
  priority @3 :Data;            # Int32 column: of all its tasks, as in Task
  name @4 :List(Text);          # of all its tasks, as in Task
  options @5 :List(Data);       # of all its tasks, as in Task
  account @6 :Data;             # UInt32 column: of all its tasks, as in Task
  owner @7 :Data;               # UInt64 column: of all its tasks, as in Task
}

struct GraphNode {
  # The next node of a graph. Position 0 is the first one that was said; each comes after all that it depends on.
  count @0 :UInt32;              # number of items
  graphId @1 :Data;              # id column: the graph that each belongs to
  taskId @2 :Data;               # id column: the tasks
  functionId @3 :Data;           # id column: the objects that hold the functions; zero: nothing runs, see README.md
  payload @4 :List(Data);        # the block of arguments, with results of other nodes in it, see README.md
  objectIds @5 :List(Data);      # ids of the objects among the arguments, one after the other
  dependencies @6 :List(Data);   # positions of the nodes it depends on, each once: UInt32, little-endian, one after the other
  wanted @7 :Data;               # byte column: 1 = the client gets a TaskResult for it, 0 = only other nodes need it
  frames @8 :Data;               # UInt32 column: number of payload frames, as in Task
}

struct GraphInput {
  # The next node of a graph, if it is no call: the result of another task of this client, or of a node of another graph.
  # Said again with its result for a node that was said before: the scheduler has asked for that with an ObjectRequest.
  count @0 :UInt32;            # number of items
  graphId @1 :Data;            # id column: the graph that each belongs to
  position @2 :Data;           # UInt32 column: which node of that graph it is
  taskId @3 :Data;             # id column: the task whose result it is
  sourceGraph @4 :Data;        # id column: the graph that the task is a node of; zero if it is none
  sourcePosition @5 :Data;     # UInt32 column: of a node: its position there
  known @6 :Data;              # byte column: 0 = the task is open: its result is awaited; 1 = the result is here; 2 = it is the stored object that has the task's id
  payload @7 :List(Data);      # the result, if it is here
  status @8 :Data;             # byte column: as in TaskResult, if it is here
}

struct GraphTaskCancel {
  # Never run what is left of a graph, and stop what runs. The results of its wanted nodes still follow: canceled.
  count @0 :UInt32;   # number of items
  graphId @1 :Data;   # id column: the graphs
}

struct ClientHeartbeat {
  # Sent every few seconds; a silent client is taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: the client's own clock in nanoseconds; echoed as it is
  hasUnsaid @2 :Data;         # byte column: 1 = not all that the client had to say has left; 0 = it has, or is not known
}

struct ClientHeartbeatEcho {
  # The answer to a heartbeat; a silent scheduler is taken for dead.
  count @0 :UInt32;           # number of items
  sentNs @1 :Data;            # UInt64 column: as it came
  valueBytes @2 :Data;        # UInt64 column: the most bytes of one value that the scheduler takes now, 0 = not said
}

struct ClientResting {
  # Of a client inside a task: the task does nothing but wait, and what the client had to say it has said before this.
  count @0 :UInt32;         # number of items
  wait @1 :Data;            # UInt32 column: the number of the wait, which the agent that runs the task knows too
  heard @2 :Data;           # UInt64 column: the highest number of the scheduler's messages that it has had
}

struct ExplainRequest {
  # What does this task wait for? Answered by one ExplainResponse, unless the task ends meanwhile.
  count @0 :UInt32;        # number of items
  taskId @1 :Data;         # id column: the task
  graphId @2 :Data;        # id column: the graph that it is a node of; zero if it is none
  position @3 :Data;       # UInt32 column: of a node: its position, as in GraphNode
  wanted @4 :Data;         # byte column: 1 = the client waits for its result: before the answer, if memory and disk for values are full where it waits, it is made the next one that begins
}

struct ExplainResponse {
  # Where a task is, and what it waits for.
  count @0 :UInt32;        # number of items
  taskId @1 :Data;         # id column: the task
  state @2 :List(Text);    # as on the monitor: inactive, running, canceling; empty: the scheduler does not have it
  waitsFor @3 :List(Text); # in a word or two, see README.md
  sentence @4 :List(Text); # the same for people, with what to do
  worker @5 :List(Text);   # the worker that has it, or has run it; empty: none
  tries @6 :Data;          # UInt32 column: which try this is, from 1; 0: not known
  past @7 :List(Text);     # why the earlier tries ended, for people
  stateMs @8 :Data;        # UInt64 column: for how many milliseconds it has been in this state at least; 0 = not known
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
  # Who is there? Said again with the same number it takes the place of the one before.
  count @0 :UInt32;      # number of items
  number @1 :Data;       # UInt32 column: made up by the client
  detailed @2 :Data;     # byte column: 1 = each worker is described too; 2 = the objects of this client are
  workers @3 :Data;      # UInt32 column: answer again whenever workers come, until so many are connected; 0 = answer once
  restart @4 :Data;      # byte column: 1 = before the answer, tell all agents to go on with fresh worker processes
  leave @5 :List(Text);  # names of workers, separated by commas: before the answer, tell their agents to leave; empty: none
  cancel @6 :List(Text); # short ids of tasks of anybody, in hex, separated by commas: before the answer, cancel them
}

struct InfoResponse {
  # The answer to an InfoRequest. A detailed one comes after the descriptions of the workers.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  workers @2 :Data;        # UInt32 column: how many workers are connected
  clusters @3 :Data;       # UInt32 column: how many agents these belong to
  clients @4 :Data;        # UInt32 column: how many clients are connected, those inside tasks too
  waitingTasks @5 :Data;   # UInt32 column: how many tasks wait at the scheduler for a worker
  refused @6 :List(Text);  # why nothing was asked of agents, though the request wanted it; empty if it was, or did not
}

struct WorkerDetails {
  # One connected worker.
  count @0 :UInt32;               # number of items
  number @1 :Data;                # UInt32 column: of the request
  name @2 :List(Text);            # its name
  cluster @3 :Data;               # UInt32 column: the position of its agent in this answer; workers of one agent have the same
  tasks @4 :Data;                 # UInt32 column: how many tasks it has: running, waiting for others, queued
  blockedTasks @5 :Data;          # UInt32 column: how many of these wait for tasks of their own
  pythonVersion @6 :List(Text);   # of its agent's hello
  packageVersion @7 :List(Text);  # of its agent's hello
  capabilities @8 :List(Text);    # of its agent's hello
}

struct ObjectDetails {
  # One object of the client that has asked.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  object @2 :Data;         # id column: its id; of a result the one of its task
  name @3 :List(Text);     # what its client has called it; of a result the name of its function
  kind @4 :Data;           # byte column: 0 = a stored value, 1 = a function, 2 = an argument of one task, 3 = a result
  place @5 :Data;          # byte column: where its bytes are: 0 = here, 1 = with the client, 2 = with an agent, 3 = lost
  sizeBytes @6 :Data;      # UInt64 column: of its bytes, wherever they are
  copies @7 :Data;         # UInt32 column: how many agents have fetched it
  users @8 :Data;          # UInt32 column: how many open tasks need it
}

struct OutputRequest {
  # What has this task written? Answered by its lines and one OutputResponse. The zero id: say what all tasks of this client
  # write, from now on; that has no response.
  count @0 :UInt32;   # number of items
  number @1 :Data;    # UInt32 column: made up by the client
  taskId @2 :Data;    # id column: the task; zero: all
  report @3 :Data;    # byte column: 1 = only its latest report, how far it is; 0 = its lines, without reports
}

struct OutputLine {
  # A line that a task of this client has written.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  taskId @2 :Data;         # id column: the task
  stream @3 :Data;         # byte column: 0 = standard output, 1 = standard error, 2 = logging, 3 = report: "40% of the paths"
  timeUs @4 :Data;         # UInt64 column: when: microseconds since 1970, by the clock of the worker's host
  dropped @5 :Data;        # UInt32 column: so many lines before this one were left out
  name @6 :List(Text);     # of the task
  worker @7 :List(Text);   # where it ran
  text @8 :List(Text);     # the line, without its end, 8192 characters at most; empty if only dropped is said
}

struct OutputResponse {
  # All lines of the task that are kept have been said.
  count @0 :UInt32;   # number of items
  number @1 :Data;    # UInt32 column: of the request
  dropped @2 :Data;   # UInt32 column: so many of its lines were left out in all
}

struct JobRequest {
  # A request about a job that the scheduler keeps. Resent in a new session, it does nothing twice.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: made up by the client
  verb @2 :Data;           # byte column: what is asked, see README.md
  name @3 :List(Text);     # the job
  first @4 :Data;          # UInt64 column: a row, a place in the order of READ_NEW, or a revision
  amount @5 :Data;         # UInt32 column: how many rows, a switch, a kind or a revision, as the verb says
  body @6 :List(Data);     # terms as JSON, a digest, or an id, as the verb says
  record @7 :List(Data);   # 8 bytes: the record that is meant, and 4 more: the work; empty: the job that has the name now
  frames @8 :Data;         # UInt32 column: number of frames of each item, which follow the message: digests and arguments of rows, or an object
}

struct JobResponse {
  # An answer to a JobRequest. Each has one, after any number with the status 4.
  count @0 :UInt32;        # number of items
  number @1 :Data;         # UInt32 column: of the request
  status @2 :Data;         # byte column: 0 = known, 1 = rows, 2 = refused, 3 = there is no such job, 4 = it waits, 5 = conflict, 6 = changed
  first @3 :Data;          # UInt64 column: of the first row, where rows come in the order in which they ended
  amount @4 :Data;         # UInt32 column: how many rows
  body @5 :List(Data);     # JSON, or the heads of rows, see README.md
  reason @6 :List(Text);   # of a refusal, as a sentence
  frames @7 :Data;         # UInt32 column: number of frames of each item, which follow the message: the values of the rows, one after the other
}
