# What the scheduler shows to monitors: one way, each message on a topic that viewers subscribe to. The scheduler's socket is
# an XPUB, a viewer's a SUB. A message of the socket has two frames, the topic and one message with the root
# SchedulerToMonitor; topics and rules are in README.md. A "short id" is 8 bytes from which nobody finds the id of the thing.

@0xb1f4c07e92d85a63;

struct SchedulerToMonitor {
  batches @0 :List(Batch);   # the first item is a StateHead
  direction @1 :UInt16;     # always 7: a message of another direction is refused
  number @2 :UInt64;        # counts the messages of this topic since the start of the scheduler, from 1
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
    }
  }
}

struct StateHead {
  # The first item of each message: whose state this is, when it was so, and how much of it is shown.
  count @0 :UInt32;           # number of items
  scheduler @1 :List(Data);   # short id of this run of the scheduler; another one means that all counters began anew
  timeUs @2 :Data;            # UInt64 column: when it was so: microseconds since 1970, UTC
  shown @3 :Data;             # UInt32 column: how many things of the topic are in the messages that were sent at this time
  total @4 :Data;             # UInt64 column: how many there are
  more @5 :Data;              # byte column: 1 = the next message of this topic continues this one
}

struct StateScheduler {
  # The scheduler as a whole. Topic scheduler.
  count @0 :UInt32;                # number of items
  address @1 :List(Text);          # where it listens
  packageVersion @2 :List(Text);   # version of its package
  startedUs @3 :Data;              # UInt64 column: when it began: microseconds since 1970
  cpuPermille @4 :Data;            # UInt32 column: of one core, since the message before; 1000 = one core
  rssBytes @5 :Data;               # UInt64 column: resident memory of its process
  freeBytes @6 :Data;              # UInt64 column: memory that its host has left
  lagUs @7 :Data;                  # UInt32 column: how late its loop was since the message before: the median
  lagMostUs @8 :Data;              # UInt32 column: the same: 95 of 100 were earlier
  objects @9 :Data;                # UInt32 column: objects that are stored
  objectBytes @10 :Data;           # UInt64 column: bytes of these
  waiting @11 :Data;               # UInt64 column: tasks that no worker has
  running @12 :Data;               # UInt64 column: tasks that workers have
  agents @13 :Data;                # UInt32 column: agents that are connected or awaited
  workers @14 :Data;               # UInt32 column: their workers
  clients @15 :Data;               # UInt32 column: clients that are connected or awaited, without those in tasks
  queueSize @16 :Data;             # UInt32 column: the most tasks at one worker
  sharedBytes @17 :Data;           # UInt64 column: those of objectBytes that are in memory that clients share, as these say
}

struct StateCount {
  # One counter since the start of the scheduler. Topic scheduler.
  count @0 :UInt32;      # number of items
  group @1 :Data;        # byte column: 0 = tasks that ended, by state; 1 = items sent, by message; 2 = items received, by message
  name @2 :List(Text);   # the state or message
  amount @3 :Data;       # UInt64 column: how many
}

struct StateWaiting {
  # Tasks that ask for the same, and what those of them that wait are waiting for. Topic scheduler.
  count @0 :UInt32;            # number of items
  asks @1 :List(Text);         # what they ask for beside a place, as gpu=1,memory=1024; empty: nothing; others: many different things
  waitsFor @2 :List(Text);     # in the words of ExplainResponse.waitsFor
  sentence @3 :List(Text);     # as in ExplainResponse, about one of them
  waiting @4 :Data;            # UInt64 column: those that no worker has
  running @5 :Data;            # UInt64 column: those that workers have
  places @6 :Data;             # UInt32 column: how many of them the workers that are there could run at a time; 0: none
  workUs @7 :Data;             # UInt64 column: how long all of them will take, one after the other, without those that are unmeasured
  unmeasured @8 :Data;         # UInt64 column: those of a function of which no run was measured
}

struct StateClient {
  # A client. Topic clients.
  count @0 :UInt32;        # number of items
  client @1 :List(Data);   # its short id
  label @2 :List(Text);    # which program, and where: "prices.py 4711, alice@host"
  root @3 :List(Data);     # short id of the client outside of tasks that it works for; its own if it is that
  isAway @4 :Data;         # byte column: 1 = its connection is lost, and it is awaited
  open @5 :Data;           # UInt64 column: its tasks that have not ended
  waiting @6 :Data;        # UInt64 column: those of them that no worker has
  seenMs @7 :Data;         # UInt32 column: how long ago it was heard last
  owner @8 :List(Text);    # to whom it belongs: a name on the list of keys, or a user; empty: nobody in particular
}

struct StateAgent {
  # An agent and its workers, one row of `workers` for each. Topic workers.
  count @0 :UInt32;               # number of items
  agent @1 :List(Data);           # its short id
  host @2 :List(Text);            # the name of its host
  engine @3 :List(Text);          # what its workers run tasks with
  workerNames @4 :List(Text);     # separated by commas
  pythonVersion @5 :List(Text);   # of its workers
  capabilities @6 :List(Text);    # as in WorkerHello
  pid @7 :Data;                   # UInt32 column: its process; 0 = unknown
  cpuPermille @8 :Data;           # UInt32 column: of its process
  rssBytes @9 :Data;              # UInt64 column: of its process
  freeBytes @10 :Data;            # UInt64 column: memory that its host has left
  lagUs @11 :Data;                # UInt32 column: how long a message takes to it and back
  seenMs @12 :Data;               # UInt32 column: how long ago it was heard last
  isLeaving @13 :Data;            # byte column: 1 = it drains; 2 = its connection is lost, and it is awaited
  workers @14 :List(Data);        # rows of 40 bytes, see README.md; empty: not known
  hotBytes @15 :Data;              # UInt64 column: shared memory that counts for its values
  hotMostBytes @16 :Data;          # UInt64 column: how much all agents of its user on its host may have
  coldBytes @17 :Data;             # UInt64 column: its values on disk
  coldMostBytes @18 :Data;         # UInt64 column: how much all of these agents may have there; 0 = none
  spilledBytes @19 :Data;          # UInt64 column: what it has written there since its start
  readBytes @20 :Data;             # UInt64 column: what it has read back from there
  heldWorkers @21 :Data;           # UInt32 column: workers that begin nothing, because memory and disk for values are full
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
  function @1 :List(Data);     # its short id; empty: all functions that have no item of their own
  name @2 :List(Text);         # its name
  waiting @3 :Data;            # UInt64 column: tasks that no worker has
  running @4 :Data;            # UInt64 column: tasks that workers have
  success @5 :Data;            # UInt64 column: since the first subscription to this topic
  failed @6 :Data;             # UInt64 column: the same
  canceled @7 :Data;           # UInt64 column: the same
  other @8 :Data;              # UInt64 column: the same, for all other ends
  meanUs @9 :Data;             # UInt32 column: duration of a run, the mean of all that were measured; 0 = unknown
  durations @10 :List(Data);   # how many runs took so long: 32 UInt32, little-endian; number n counts those under 2^n microseconds, and not under 2^(n-1)
  waitsFor @11 :List(Text);    # what most of those that wait are waiting for
  asks @12 :List(Text);        # what these ask for, as in StateWaiting
}

struct StateBins {
  # What the workers of an agent did since the message before, one row for each that did something. Topic bins.
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
  times @6 :Data;                # UInt64 column: how many since the start of the scheduler
  firstUs @7 :Data;              # UInt64 column: when the first one was: microseconds since 1970
  lastUs @8 :Data;               # UInt64 column: when the last one was
  task @9 :List(Data);           # short id of the last example
  worker @10 :List(Text);        # where that ran
  traceback @11 :List(Text);     # of the last example, its end if it is long
}

struct StateTask {
  # One task, as it is now. Topics tasks (a sample) and task/ID (that one).
  count @0 :UInt32;              # number of items
  task @1 :List(Data);           # its short id
  name @2 :List(Text);           # its name
  function @3 :List(Data);       # short id of the function
  functionName @4 :List(Text);   # its name
  client @5 :List(Data);         # short id of its client
  graph @6 :List(Data);          # short id of its graph, if it is in one
  state @7 :List(Text);          # as in the table of states
  worker @8 :List(Text);         # the worker that has it or had it last
  attempt @9 :Data;              # UInt32 column: how many times it was given to a worker
  submittedUs @10 :Data;         # UInt64 column: microseconds since 1970; 0 = not known, also below
  startedUs @11 :Data;           # UInt64 column: when its last run began
  endedUs @12 :Data;             # UInt64 column: when it ended
  durationUs @13 :Data;          # UInt32 column: of its last run
  cpuUs @14 :Data;               # UInt32 column: processor time of its last run, if it was measured
  peakBytes @15 :Data;           # UInt64 column: most memory of its last run, if it was measured
  reason @16 :List(Text);        # why it failed; in task/ID also what it waits for, as in ExplainResponse
  owner @17 :List(Text);         # whose it is, also if a task of theirs has submitted it; empty: nobody in particular
  clientLabel @18 :List(Text);   # what the client calls itself, outside of tasks, that it is for
}

struct StateMove {
  # One step in the life of a task. Topic task/ID, from the subscription on.
  count @0 :UInt32;        # number of items
  task @1 :List(Data);     # its short id
  timeUs @2 :Data;         # UInt64 column: when: microseconds since 1970
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
  nodes @4 :Data;          # UInt32 column: how many
  waiting @5 :Data;        # UInt32 column: nodes that need results that are not there
  running @6 :Data;        # UInt32 column: nodes whose arguments are there: they wait for a worker, or run
  success @7 :Data;        # UInt32 column: nodes that succeeded
  failed @8 :Data;         # UInt32 column: nodes that failed
  canceled @9 :Data;       # UInt32 column: nodes that were cancelled, and those that needed them
  submittedUs @10 :Data;   # UInt64 column: microseconds since 1970
  endedUs @11 :Data;       # UInt64 column: 0 = it has not ended
  owner @12 :List(Text);   # whose it is, as in StateTask
  clientLabel @13 :List(Text); # as in StateTask
}

struct StateJob {
  # Rows of one function that the scheduler keeps under a name. Topic jobs.
  count @0 :UInt32;             # number of items
  job @1 :List(Data);           # its short id
  name @2 :List(Text);          # of the job
  owner @3 :List(Text);         # whose it is
  program @4 :List(Text);       # which program has made it
  functionName @5 :List(Text);  # of its function
  state @6 :List(Text);         # open, paused, done, canceled or stopped
  reason @7 :List(Text);        # why it has stopped, is paused or waits; empty otherwise
  allRowsKnown @8 :Data;          # byte column: 1 = all its rows are known
  rows @9 :Data;                # UInt64 column: how many are known
  done @10 :Data;               # UInt64 column: rows that have ended well; their results are on disk
  failed @11 :Data;             # UInt64 column: rows that have failed
  said @12 :Data;               # UInt32 column: rows that were said to tasks, and have not ended
  sizeBytes @13 :Data;          # UInt64 column: what it takes on disk
  createdUs @14 :Data;          # UInt64 column: microseconds since 1970
  changedUs @15 :Data;          # UInt64 column: when a row has ended last, or anything else has changed
  failures @16 :List(Text);     # of the first 5 rows that have failed: number and error, a line each
}

struct StateNode {
  # A node of a graph of at most 2000. Topic graph/ID: all nodes first, then those that have changed.
  count @0 :UInt32;              # number of items
  graph @1 :List(Data);          # short id of the graph
  position @2 :Data;             # UInt32 column: as in GraphNode
  task @3 :List(Data);           # its short id
  functionName @4 :List(Text);   # the name of its function
  dependencies @5 :List(Data);   # positions of the nodes it depends on: UInt32, little-endian
  state @6 :List(Text);          # as in StateTask
  durationUs @7 :Data;           # UInt32 column: of its last run
}

struct StateObject {
  # A stored object, the largest first. Topic objects.
  count @0 :UInt32;        # number of items
  object @1 :List(Data);   # its short id
  name @2 :List(Text);     # what the user calls it; of a result the name of its function
  client @3 :List(Data);   # short id of a client that holds it
  sizeBytes @4 :Data;      # UInt64 column: of what is shared, as its client says
  copies @5 :Data;         # UInt32 column: nodes that have a copy
  users @6 :Data;          # UInt32 column: open tasks that need it
  isShared @7 :Data;       # byte column: 1 = its bytes are in memory that its client shares with processes of its host
  kind @8 :Data;           # byte column: as in ObjectDetails of client.capnp
  place @9 :Data;          # byte column: as in ObjectDetails
  owner @10 :List(Text);   # whose it is; empty: a function, or nobody in particular
}

struct StateEvent {
  # Something that happened. Topic events.
  count @0 :UInt32;         # number of items
  timeUs @1 :Data;          # UInt64 column: when: microseconds since 1970
  kind @2 :List(Text);      # came, cut, back, went, refused, restarted
  subject @3 :List(Text);   # whom it happened to
  reason @4 :List(Text);    # a sentence
}

struct StateLine {
  # A line that a task has written. Topic task/ID: after a subscription the last lines that are kept, then those that follow.
  count @0 :UInt32;        # number of items
  task @1 :List(Data);     # its short id
  number @2 :Data;         # UInt64 column: the greater came later; one that a viewer knows was said for another viewer
  timeUs @3 :Data;         # UInt64 column: when: microseconds since 1970, by the clock of the worker's host
  stream @4 :Data;         # byte column: 0 = standard output, 1 = standard error, 2 = logging, 3 = report: how far the task is, of which the latest counts
  dropped @5 :Data;        # UInt32 column: so many lines before this one were left out
  worker @6 :List(Text);   # where it was written
  text @7 :List(Text);     # the line
}
