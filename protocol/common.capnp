# Messages that all parts of the protocol share. README.md explains columns, ids and frames.
#
# Every struct here is a batch: `count` items of one kind, one column per field. A column that is left empty means that
# all items have the field's default (0, empty, the zero id). A column that is not empty has exactly `count` entries.
# An "id column" is Data: `count` times 16 bytes. A "byte column" is Data: `count` times one unsigned byte.
# A "UInt16 column" and so on is Data: `count` numbers of that size, little-endian.

@0xd6f2a1c05b9e3471;

struct HelloReply {
  # The scheduler's answer to a hello of a client or of an agent.
  count @0 :UInt32;                  # number of items
  accepted @1 :Data;                 # byte column: 1 = accepted, 0 = refused: the peer must leave
  reason @2 :List(Text);             # why it was refused, as a sentence; empty when accepted
  schedulerId @3 :Data;              # id column: this run of the scheduler; another id means another scheduler, without any state
  protocolVersion @4 :Data;          # UInt16 column: the protocol version that the scheduler speaks
  packageVersion @5 :List(Text);     # the version of the scheduler's package
  resumed @6 :Data;                  # byte column: 1 = the session resumes; 0 = a new one starts, and both sides number their messages from 1 again
  heard @7 :Data;                    # UInt64 column: if the session resumes: the highest number received from the peer
  timeoutMilliseconds @8 :Data;      # UInt32 column: after this silence the scheduler takes the peer for dead, 0 = unknown
  windowTasks @9 :Data;              # UInt32 column: the most open tasks of this client, 0 = no limit
  windowBytes @10 :Data;             # UInt64 column: the most bytes of their arguments, 0 = no limit
  account @11 :Data;                 # UInt32 column: to a client outside of tasks: the number of its account
  valueBytes @12 :Data;              # UInt64 column: the most bytes of one value that the scheduler accepts, 0 = unknown
  rows @13 :Data;                    # UInt32 column: to a client: the most rows in one task, at most 4,096, 0 = one
}

struct HelloRequest {
  # The scheduler does not know the connection of a message. The peer opens a new connection, sends a hello there, and
  # submits its open work again.
  count @0 :UInt32;        # number of items
  reason @1 :List(Text);   # for the log of the peer
}

struct Chunk {
  # A part of a message that is too large to travel in one piece, see README.md.
  count @0 :UInt32;       # number of items
  transfer @1 :Data;      # UInt32 column: the number of its message among those that travel in parts
  sizes @2 :List(Data);   # first part: the bytes of each frame of that message, the header first: UInt64, little-endian; otherwise empty
  frames @3 :Data;        # UInt32 column: number of payload frames that are bytes of that message, one after the other
}

struct ObjectRequest {
  # The sender needs a stored object. Answered by ObjectResponse, in any order.
  count @0 :UInt32;    # number of items
  objectId @1 :Data;   # id column: the objects
  byValue @2 :Data;    # byte column: 1 = its frames, wherever they are; 0 = or its location, if it has one
}

struct ObjectResponse {
  # A stored object, or the report that it is not stored.
  count @0 :UInt32;          # number of items
  objectId @1 :Data;         # id column: the objects
  found @2 :Data;            # byte column: 1 = its frames follow, or its location; 0 = not stored; 2 = lost with its host, see README.md
  frames @3 :Data;           # UInt32 column: number of payload frames of each item
  location @4 :List(Data);   # where its memory is on the machine of its client or agent, see README.md; empty: the frames follow
  reason @5 :List(Text);     # why it is not stored, or lost, as a sentence; empty: it was deleted, or never stored
}

struct ObjectInstruction {
  # Create or delete a stored object.
  count @0 :UInt32;          # number of items
  kind @1 :Data;             # byte column: 0 = create, kept until its client deletes it or leaves;
                             # 1 = create for a task, kept until the tasks that name it have ended; 2 = delete;
                             # 3 = create a function: as 0, and its id is the hash of its content;
                             # 4 = keep a result, only to agents: the large result of the task with this id
  objectId @2 :Data;         # id column: the objects
  name @3 :List(Text);       # the user's name of it, for monitors; may be empty
  frames @4 :Data;           # UInt32 column: number of payload frames of each item
  location @5 :List(Data);   # where its memory is, see README.md; empty: the frames follow. In a delete: only that result
}

struct RunOptions {
  # Not a batch: the options of a task. Its `options` are one message with this root, or empty: then every field has its
  # default. A missing field has its default, and an unknown field is ignored.
  profiling @0 :Bool;                     # measure time and memory, for the profile in its result
  atMostOnce @1 :Bool;                    # never start it a second time, even if it was lost with its worker
  retries @2 :UInt32;                     # how many times to run it again after an exception in retryOn or a time-out
  timeoutMs @3 :UInt32;                   # end it after this time in milliseconds; 0 = the limit of its worker
  capabilities @4 :List(Capability);      # the resources that its worker must have, and the amount of each that the task takes
  wasSubmitted @5 :Bool;                  # an earlier scheduler had it, and may have started or even ended it: it continues only as a run that an agent has
  retryOn @6 :List(Text);                 # names of exception classes, as in TaskFailure; derived classes count too
  retryDelayMs @7 :UInt32;                # milliseconds to wait before the first retry, doubled for each further one
  noWorkerTimeoutMs @8 :UInt32;           # fail it after this time in milliseconds without a connected worker that could take it; 0 = it waits
  devices @9 :List(UInt16);               # the numbers of its GPUs; set by an agent for its processors
  worker @10 :Text;                       # the name of the only worker that may run it; empty = any. It fails if that worker is not connected
  seed @11 :List(UInt32);                 # the entropy of its random generators, see README.md; empty = fresh state
  seedSpawns @12 :Bool;                   # its spawn key is the number in the last 8 bytes of its id; otherwise it has none

  struct Capability {
    name @0 :Text;       # such as "gpu"
    amount @1 :UInt64;   # the amount that the task takes; 0 = the worker only must have it
  }
}

struct TaskFailure {
  # Not a batch: how a task failed. The payload of a result with the status "failed" is one message with this root, and
  # facts about the process that raised it, see README.md.
  typeName @0 :Text;     # the exception's class, with its module
  text @1 :Text;         # the exception's own text
  traceback @2 :Text;    # where it was raised, as text
  exception @3 :Data;    # the exception object, pickled; empty if it cannot be
  bases @4 :List(Text);  # the base classes of the exception's class, with their modules
  taskId @5 :Data;       # the task that raised it; may be one that the task of the result needs. Empty = unknown
}
