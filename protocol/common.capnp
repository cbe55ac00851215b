# What every part of the protocol shares. How the columns, ids and frames work is in README.md.
#
# Every struct here is a batch: `count` items of one kind, one column per field. A column that is left empty means that
# all items have the field's default (0, empty, the zero id). A column that is not empty has exactly `count` entries.
# An "id column" is Data: `count` times 16 bytes. A "byte column" is Data: `count` times one unsigned byte.
# A "UInt16 column" and so on is Data: `count` times so many bytes, little-endian.

@0xd6f2a1c05b9e3471;

struct HelloReply {
  # The scheduler's answer to a hello of a client or of an agent.
  count @0 :UInt32;                  # number of items
  accepted @1 :Data;                 # byte column: 1 = welcome, 0 = refused, the peer must go away
  reason @2 :List(Text);             # why it was refused, as a sentence; empty when accepted
  schedulerId @3 :Data;              # id column: this run of the scheduler; another id means another, empty scheduler
  protocolVersion @4 :Data;          # UInt16 column: the protocol version that the scheduler speaks
  packageVersion @5 :List(Text);     # the version of the scheduler's package
  resumed @6 :Data;                  # byte column: 1 = the session goes on where it was; 0 = both sides count from 1 again
  heard @7 :Data;                    # UInt64 column: if it goes on: the highest number of the peer that has come
  timeoutMilliseconds @8 :Data;      # UInt32 column: a peer that is silent for so long is dead for this scheduler, 0 = unknown
  windowTasks @9 :Data;              # UInt32 column: how many open tasks the scheduler takes from this client, 0 = no limit
  windowBytes @10 :Data;             # UInt64 column: how many bytes of arguments of these, 0 = no limit
  account @11 :Data;                 # UInt32 column: to a client outside of tasks: the number of its account
  valueBytes @12 :Data;              # UInt64 column: the most bytes of one value that the scheduler takes, 0 = not said
  rows @13 :Data;                    # UInt32 column: to a client: the most rows of a map that it takes as one task, at most 4,096, 0 = one
}

struct HelloRequest {
  # The scheduler does not know the connection that a message came from. The peer opens a new connection, says hello there,
  # and sends again what is still open.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the peer
}

struct Chunk {
  # A part of a message that is too large to travel in one piece, see README.md.
  count @0 :UInt32;       # number of items
  transfer @1 :Data;      # UInt32 column: the message that it belongs to: its number among those that travel in parts
  sizes @2 :List(Data);   # first part: the bytes of each frame of that message, the header first: UInt64, little-endian; else empty
  frames @3 :Data;        # UInt32 column: how many of the message's payload frames are bytes of that message, one after the other
}

struct ObjectRequest {
  # The sender needs a stored object. Answered by ObjectResponse, in any order.
  count @0 :UInt32;    # number of items
  objectId @1 :Data;   # id column: the objects
  byValue @2 :Data;    # byte column: 1 = its frames, wherever they are; 0 = its location will do, if it has one
}

struct ObjectResponse {
  # A stored object, or the news that it is not stored.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  found @2 :Data;            # byte column: 1 = its frames follow, or its location; 0 = not stored; 2 = lost with its host, see README.md
  frames @3 :Data;           # UInt32 column: how many of the message's payload frames belong to each item
  location @4 :List(Data);   # where its memory is on the machine of its client or agent, see README.md; empty: the frames follow
  reason @5 :List(Text);     # not stored, or lost: why, as a sentence; empty: it was deleted, or never stored
}

struct ObjectInstruction {
  # Create or delete a stored object.
  count @0 :UInt32;          # number of items
  kind @1 :Data;             # byte column: 0 = create, kept until its client deletes it or leaves;
                             # 1 = create for a task, kept until the tasks that name it have ended; 2 = delete;
                             # 3 = create a function: as 0, and its id is the hash of its content;
                             # 4 = keep a result, only to agents: the large result of the task with this id
  objectId @2 :Data;         # id column: the objects
  name @3 :List(Text);       # what the user calls it, for the monitor; may be empty
  frames @4 :Data;           # UInt32 column: how many of the message's payload frames belong to each item
  location @5 :List(Data);   # where its memory is, see README.md; empty: the frames follow. Of a delete: only the result that is there
}

struct RunOptions {
  # Not a batch: what a task asks for. The `options` of a task are one message with this root, or empty: then every
  # field has its default. A field that is not written has its default, one that the reader does not know is ignored.
  profiling @0 :Bool;                     # measure what the task takes, for the profile in its result
  atMostOnce @1 :Bool;                    # never start it a second time, also if it was lost with its worker
  retries @2 :UInt32;                     # how often to run it again when it has raised one of retryOn, or timed out
  timeoutMs @3 :UInt32;                   # end it after so many milliseconds; 0 = when its worker says
  capabilities @4 :List(Capability);      # what the machine of its worker must have, and how much of that the task takes
  wasSubmitted @5 :Bool;                  # another scheduler had it, and may have started it, or has told its end: only the run that an agent has counts
  retryOn @6 :List(Text);                 # names of exception classes, as in TaskFailure; those that are derived from them count too
  retryDelayMs @7 :UInt32;                # wait so many milliseconds before the first retry, and twice as long before each further one
  noWorkerTimeoutMs @8 :UInt32;           # fail it when for so long no worker was connected that could have taken it; 0 = it waits
  devices @9 :List(UInt16);               # the numbers of the GPUs that it has; an agent says it to its processors
  worker @10 :Text;                       # the name of the one worker that may run it; empty = any. It fails if that is not there
  seed @11 :List(UInt32);                 # the entropy of its random generators, see README.md; empty = fresh state
  seedSpawns @12 :Bool;                   # its spawn key is the number in the last 8 bytes of its id; else it has none

  struct Capability {
    name @0 :Text;       # such as "gpu"
    amount @1 :UInt64;   # how much of it the task takes; 0 = it only has to be there
  }
}

struct TaskFailure {
  # Not a batch: how a task failed. The payload of a result with the status "failed" is one message with this root, and
  # facts about the process that has raised it, see README.md.
  typeName @0 :Text;     # the exception's class, with its module
  text @1 :Text;         # the exception's own text
  traceback @2 :Text;    # where it was raised, as text
  exception @3 :Data;    # the exception object, pickled; empty if it cannot be
  bases @4 :List(Text);  # the classes that the exception's class is derived from, with their modules
  taskId @5 :Data;       # the task that raised it; another one than that of the result, if that one needs it. Empty = not said
}
