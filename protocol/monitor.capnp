# The stream of the scheduler to monitors: one way, each message on a topic that viewers subscribe to. The scheduler's socket is
# an XPUB, a viewer's a SUB. A message of the socket has two frames, the topic and one message with the root
# SchedulerToMonitor; topics and rules are in README.md. A "short id" is 8 bytes, from which the id itself cannot be computed.

@0xb1f4c07e92d85a63;

struct SchedulerToMonitor {
  batches @0 :List(Batch);   # the first item is a StateHead
  direction @1 :UInt16;     # always 7: a message of another direction is refused
  number @2 :UInt64;        # number of the message on this topic since the start of the scheduler, from 1
  heard @3 :UInt64;         # always 0

  struct Batch {
    union {
      stateHead @0 :StateHead;
      stateScheduler @1 :StateScheduler;
      stateCount @2 :StateCount;
      stateClient @3 :StateClient;
      stateAgent @4 :StateAgent;
      stateProcessors @5 :StateProcessors;
      stateFunction @6 :StateFunction;
      stateBins @7 :StateBins;
      stateFailure @8 :StateFailure;
      stateTask @9 :StateTask;
      stateMove @10 :StateMove;
      stateGraph @11 :StateGraph;
      stateNode @12 :StateNode;
      stateObject @13 :StateObject;
      stateEvent @14 :StateEvent;
      stateLine @15 :StateLine;
      stateWaiting @16 :StateWaiting;
      stateJob @17 :StateJob;
      stateVerdict @18 :StateVerdict;
      stateRuns @19 :StateRuns;
    }
  }
}

struct StateHead {
  # The first item of each message: its scheduler, the time of the state, and how much of it is shown.
  count @0 :UInt32;           # number of items
  scheduler @1 :List(Data);   # short id of this run of the scheduler; another one means that all counters restarted
  timeUs @2 :Data;            # UInt64 column: time of the state: microseconds since 1970, UTC
  shown @3 :Data;             # UInt32 column: number of things of the topic in the messages of this time
  total @4 :Data;             # UInt64 column: number of things in all
  more @5 :Data;              # byte column: 1 = the next message of this topic continues this one
}

struct StateScheduler {
  # The scheduler as a whole. Topic scheduler.
  count @0 :UInt32;                # number of items
  address @1 :List(Text);          # where it listens
  packageVersion @2 :List(Text);   # version of its package
  startedUs @3 :Data;              # UInt64 column: start time: microseconds since 1970
  cpuPermille @4 :Data;            # UInt32 column: of one core, since the previous message; 1000 = one core
  rssBytes @5 :Data;               # UInt64 column: resident memory of its process
  freeBytes @6 :Data;              # UInt64 column: free memory of its host
  lagUs @7 :Data;                  # UInt32 column: delay of its event loop since the previous message: the median
  lagMostUs @8 :Data;              # UInt32 column: the 95th percentile of that delay
  objects @9 :Data;                # UInt32 column: number of stored objects
  objectBytes @10 :Data;           # UInt64 column: bytes of stored objects
  waiting @11 :Data;               # UInt64 column: number of open tasks that no worker has
  running @12 :Data;               # UInt64 column: number of tasks at workers, executed, queued or blocked
  agents @13 :Data;                # UInt32 column: number of agents, connected or awaited
  workers @14 :Data;               # UInt32 column: number of their workers
  clients @15 :Data;               # UInt32 column: number of clients, connected or awaited, without those in tasks
  queueSize @16 :Data;             # UInt32 column: the most tasks at one worker
  sharedBytes @17 :Data;           # UInt64 column: the part of objectBytes in memory that clients share, as reported by these
}

struct StateCount {
  # One counter since the start of the scheduler. Topic scheduler.
  count @0 :UInt32;      # number of items
  group @1 :Data;        # byte column: 0 = tasks that ended, by state; 1 = items sent, by message; 2 = items received, by message
  name @2 :List(Text);   # the state or message
  amount @3 :Data;       # UInt64 column: its value
}

struct StateWaiting {
  # Tasks that ask for the same resources, and what the waiting ones wait for. Topic scheduler.
  count @0 :UInt32;            # number of items
  asks @1 :List(Text);         # the resources, as gpu=1,memory=1024; empty: none besides a slot; others: various
  waitsFor @2 :List(Text);     # as in ExplainResponse.waitsFor
  sentence @3 :List(Text);     # as in ExplainResponse, about one of them
  waiting @4 :Data;            # UInt64 column: number of those that wait at the scheduler
  running @5 :Data;            # UInt64 column: number of those at workers
  places @6 :Data;             # UInt32 column: how many of them the connected workers could run at a time
  workUs @7 :Data;             # UInt64 column: expected run time of all of them together, without the unmeasured ones
  unmeasured @8 :Data;         # UInt64 column: number of those whose function has no measured run
}

struct StateVerdict {
  # What limits the cluster, and how long the open tasks will take. Topic scheduler.
  count @0 :UInt32;            # number of items
  word @1 :List(Text);         # the limit in a word, see README.md
  sentence @2 :List(Text);     # what limits the cluster, and what to do
  warning @3 :List(Text);      # tasks that no worker can run, while others run: "40 need tpu=1: no worker has it"
  leftUs @4 :Data;             # UInt64 column: estimated time until all open tasks that can run have ended; 0 = unknown
  idleSinceUs @5 :Data;        # UInt64 column: when the last task ended, if none is open: microseconds since 1970; 0 = unknown
}

struct StateClient {
  # A client. Topic clients.
  count @0 :UInt32;        # number of items
  client @1 :List(Data);   # its short id
  label @2 :List(Text);    # the program and its place: "prices.py 4711, alice@host"
  root @3 :List(Data);     # short id of its root client; its own if it is a root client
  isAway @4 :Data;         # byte column: 1 = its connection is lost, and it is awaited
  open @5 :Data;           # UInt64 column: number of its open tasks
  waiting @6 :Data;        # UInt64 column: number of these that wait at the scheduler
  seenMs @7 :Data;         # UInt32 column: milliseconds since its last message
  owner @8 :List(Text);    # its owner: a name on the list of keys, or a user; empty: no owner
}

struct StateAgent {
  # An agent and its workers, one row of `workers` for each. Topic workers.
  count @0 :UInt32;               # number of items
  agent @1 :List(Data);           # its short id
  host @2 :List(Text);            # the name of its host
  engine @3 :List(Text);          # the engine that runs its tasks
  workerNames @4 :List(Text);     # separated by commas
  pythonVersion @5 :List(Text);   # of its workers
  capabilities @6 :List(Text);    # as in WorkerHello
  pid @7 :Data;                   # UInt32 column: its process; 0 = unknown
  cpuPermille @8 :Data;           # UInt32 column: of its process
  rssBytes @9 :Data;              # UInt64 column: of its process
  freeBytes @10 :Data;            # UInt64 column: free memory of its host
  lagUs @11 :Data;                # UInt32 column: round-trip time of a message to it
  seenMs @12 :Data;               # UInt32 column: milliseconds since its last message
  isLeaving @13 :Data;            # byte column: 1 = it drains; 2 = its connection is lost, and it is awaited
  workers @14 :List(Data);        # rows of 40 bytes, see README.md; empty: unknown
  hotBytes @15 :Data;              # UInt64 column: shared memory of its values
  hotMostBytes @16 :Data;          # UInt64 column: limit of shared memory for all agents of its user on its host
  coldBytes @17 :Data;             # UInt64 column: its values on disk
  coldMostBytes @18 :Data;         # UInt64 column: limit on disk for all of these agents; 0 = nothing may be stored there
  spilledBytes @19 :Data;          # UInt64 column: bytes written to disk since its start
  readBytes @20 :Data;             # UInt64 column: bytes read back from disk
  heldWorkers @21 :Data;           # UInt32 column: number of paused workers
}

struct StateProcessors {
  # The processes of an agent's workers, one row for each. Topic processors.
  count @0 :UInt32;            # number of items
  agent @1 :List(Data);        # its short id
  processors @2 :List(Data);   # rows of 48 bytes, see README.md
}

struct StateFunction {
  # The tasks of one function. Topic functions.
  count @0 :UInt32;            # number of items
  function @1 :List(Data);     # its short id; empty: all functions without an item of their own
  name @2 :List(Text);         # its name
  waiting @3 :Data;            # UInt64 column: number of tasks that wait at the scheduler
  running @4 :Data;            # UInt64 column: number of tasks at workers
  success @5 :Data;            # UInt64 column: tasks that succeeded, since the start of the scheduler
  failed @6 :Data;             # UInt64 column: tasks with any end except success and cancel
  canceled @7 :Data;           # UInt64 column: tasks that were cancelled
  runs @8 :Data;               # UInt64 column: measured runs: tries that succeeded or failed, while a viewer was subscribed to this topic
  runUs @9 :Data;              # UInt64 column: sum of their durations
  leastUs @10 :Data;           # UInt32 column: the shortest of them
  mostUs @11 :Data;            # UInt32 column: the longest of them
  durations @12 :List(Data);   # histogram of their durations: 32 UInt32, little-endian; number n counts those from 2^(n-1) to below 2^n microseconds
  waitsFor @13 :List(Text);    # what most of the waiting ones wait for
  asks @14 :List(Text);        # the resources that these ask for, as in StateWaiting
}

struct StateBins {
  # The work of an agent's workers since the previous message, one row for each busy one. Topic bins.
  count @0 :UInt32;       # number of items
  agent @1 :List(Data);   # its short id
  bins @2 :List(Data);    # rows of 32 bytes, see README.md
}

struct StateFailure {
  # Failures of one kind. Topic failures.
  count @0 :UInt32;              # number of items
  failure @1 :List(Data);        # short id of the kind
  type @2 :List(Text);           # of the exception, or the state in which the task ended
  message @3 :List(Text);        # of the last example
  function @4 :List(Data);       # short id of the function
  functionName @5 :List(Text);   # its name
  times @6 :Data;                # UInt64 column: their number since the start of the scheduler
  firstUs @7 :Data;              # UInt64 column: time of the first one: microseconds since 1970
  lastUs @8 :Data;               # UInt64 column: time of the last one
  task @9 :List(Data);           # short id of the last example
  worker @10 :List(Text);        # the worker that ran that
  traceback @11 :List(Text);     # of the last example, its end if it is long
}

struct StateTask {
  # The present state of one task. Topics tasks (a sample) and task/ID (that one).
  count @0 :UInt32;              # number of items
  task @1 :List(Data);           # its short id
  name @2 :List(Text);           # its name
  function @3 :List(Data);       # short id of the function
  functionName @4 :List(Text);   # its name
  client @5 :List(Data);         # short id of its client
  graph @6 :List(Data);          # short id of its graph, if it is in one
  state @7 :List(Text);          # as in the table of states
  worker @8 :List(Text);         # the worker that has it or had it last
  attempt @9 :Data;              # UInt32 column: how many times it was assigned to a worker
  submittedUs @10 :Data;         # UInt64 column: microseconds since 1970; 0 = unknown, also below
  startedUs @11 :Data;           # UInt64 column: start of its last run
  endedUs @12 :Data;             # UInt64 column: its end
  durationUs @13 :Data;          # UInt32 column: of its last run
  cpuUs @14 :Data;               # UInt32 column: CPU time of its last run, if measured
  peakBytes @15 :Data;           # UInt64 column: peak memory of its last run, if measured
  reason @16 :List(Text);        # why it failed; in task/ID also what it waits for, as in ExplainResponse
  owner @17 :List(Text);         # its owner, also of a nested task; empty: no owner
  clientLabel @18 :List(Text);   # the label of its root client
  seenUs @19 :Data;              # UInt64 column: when an agent last reported its run; 0 = no report has named it yet
}

struct StateRuns {
  # All open tasks of the sample. Topic tasks, the last item of each second.
  count @0 :UInt32;          # number of items
  running @1 :List(Data);    # joined short ids of the tasks that agents reported as running since the previous item
  others @2 :List(Data);     # joined short ids of all other open tasks of the sample
  intervalMs @3 :Data;       # UInt32 column: milliseconds from one report of an agent to the next; 0 = unknown
}

struct StateMove {
  # One state transition of a task. Topic task/ID, from the subscription on.
  count @0 :UInt32;        # number of items
  task @1 :List(Data);     # its short id
  timeUs @2 :Data;         # UInt64 column: microseconds since 1970
  event @3 :List(Text);    # what happened
  state @4 :List(Text);    # the state after it
  worker @5 :List(Text);   # the worker that had it
  attempt @6 :Data;        # UInt32 column: as in StateTask
  reason @7 :List(Text);   # a sentence, if there is one
}

struct StateGraph {
  # A graph of tasks. Topic graphs.
  count @0 :UInt32;        # number of items
  graph @1 :List(Data);    # its short id
  name @2 :List(Text);     # of its tasks
  client @3 :List(Data);   # short id of its client
  nodes @4 :Data;          # UInt32 column: number of its tasks
  waiting @5 :Data;        # UInt32 column: tasks that wait for results of other tasks
  running @6 :Data;        # UInt32 column: tasks with all arguments, which wait for a worker or run
  success @7 :Data;        # UInt32 column: tasks that succeeded
  failed @8 :Data;         # UInt32 column: tasks that failed
  canceled @9 :Data;       # UInt32 column: tasks that were cancelled, and those that needed them
  submittedUs @10 :Data;   # UInt64 column: microseconds since 1970
  endedUs @11 :Data;       # UInt64 column: 0 = it has not ended
  owner @12 :List(Text);   # its owner, as in StateTask
  clientLabel @13 :List(Text); # as in StateTask
}

struct StateJob {
  # Rows of one function that the scheduler keeps under a name. Topic jobs.
  count @0 :UInt32;             # number of items
  job @1 :List(Data);           # its short id
  name @2 :List(Text);          # of the job
  owner @3 :List(Text);         # its owner
  program @4 :List(Text);       # the program that made it
  functionName @5 :List(Text);  # of its function
  state @6 :List(Text);         # open, paused, done, canceled or stopped
  reason @7 :List(Text);        # why it is stopped, paused or waiting; otherwise empty
  allRowsKnown @8 :Data;          # byte column: 1 = all its rows are known
  rows @9 :Data;                # UInt64 column: number of known rows
  done @10 :Data;               # UInt64 column: rows that succeeded; their results are on disk
  failed @11 :Data;             # UInt64 column: rows that failed
  handedOut @12 :Data;          # UInt32 column: rows that were submitted as tasks and have not ended
  running @13 :Data;            # UInt32 column: rows at workers
  sizeBytes @14 :Data;          # UInt64 column: its size on disk
  createdUs @15 :Data;          # UInt64 column: microseconds since 1970
  changedUs @16 :Data;          # UInt64 column: when a row ended last, or anything else changed
  failures @17 :List(Text);     # of the first 20 failed rows, in row order: number and error, one line each
}

struct StateNode {
  # A task of a graph of at most 2000 tasks. Topic graph/ID: all tasks first, then the changed ones.
  count @0 :UInt32;              # number of items
  graph @1 :List(Data);          # short id of the graph
  position @2 :Data;             # UInt32 column: its position in the graph, see README.md
  task @3 :List(Data);           # its short id
  functionName @4 :List(Text);   # the name of its function
  dependencies @5 :List(Data);   # positions of the tasks of the graph that it depends on: UInt32, little-endian
  state @6 :List(Text);          # as in StateTask
  durationUs @7 :Data;           # UInt32 column: of its last run
}

struct StateObject {
  # A stored object, the largest first. Topic objects.
  count @0 :UInt32;        # number of items
  object @1 :List(Data);   # its short id
  name @2 :List(Text);     # the user's name of it; of a result the name of its function
  client @3 :List(Data);   # short id of a client that holds it
  sizeBytes @4 :Data;      # UInt64 column: its size, as reported by its client
  copies @5 :Data;         # UInt32 column: number of nodes that have a copy
  users @6 :Data;          # UInt32 column: number of open tasks that need it
  isShared @7 :Data;       # byte column: 1 = its bytes are in memory that its client shares with processes of its host
  kind @8 :Data;           # byte column: as in ObjectDetails of client.capnp
  place @9 :Data;          # byte column: as in ObjectDetails
  owner @10 :List(Text);   # its owner; empty: a function, or no owner
}

struct StateEvent {
  # Something that happened. Topic events.
  count @0 :UInt32;         # number of items
  timeUs @1 :Data;          # UInt64 column: microseconds since 1970
  kind @2 :List(Text);      # came, cut, back, went, refused, restarted
  subject @3 :List(Text);   # the peer or other thing that it happened to
  reason @4 :List(Text);    # a sentence
}

struct StateLine {
  # A line that a task has written. Topic task/ID: after a subscription the stored lines, then new ones.
  count @0 :UInt32;        # number of items
  task @1 :List(Data);     # its short id
  number @2 :Data;         # UInt64 column: increases with time; a number that a viewer knows was sent for another viewer
  timeUs @3 :Data;         # UInt64 column: microseconds since 1970, by the clock of the worker's host
  stream @4 :Data;         # byte column: 0 = standard output, 1 = standard error, 2 = logging, 3 = report: progress, of which only the latest counts
  dropped @5 :Data;        # UInt32 column: number of lines left out just before this one
  worker @6 :List(Text);   # the worker where it was written
  text @7 :List(Text);     # the line
}
