# Between an agent and its processors, over a Unix socket inside one machine. Both ends are always of the same package, so this
# part carries no version. Framing: see README.md.

@0xe85a3b94d07c1f26;

using Common = import "common.capnp";
using Worker = import "worker.capnp";

struct AgentToProcessor {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 5: a message of another direction is refused

  struct Batch {
    union {
      runTask @0 :Worker.RunTask;
      objectResponse @1 :Common.ObjectResponse;
      objectInstruction @2 :Common.ObjectInstruction;
      collectGarbage @3 :CollectGarbage;
      resumeTask @4 :ResumeTask;
      endProcessor @5 :EndProcessor;
      runCancel @6 :Worker.RunCancel;
    }
  }
}

struct ProcessorToAgent {
  batches @0 :List(Batch);   # in the order in which the items were sent
  direction @1 :UInt16;     # always 6: a message of another direction is refused

  struct Batch {
    union {
      processorReady @0 :ProcessorReady;
      runResult @1 :Worker.RunResult;
      taskBlocked @2 :TaskBlocked;
      resumeRequest @3 :ResumeRequest;
      taskUnblocked @4 :TaskUnblocked;
      engineDown @5 :EngineDown;
      taskOutput @6 :TaskOutput;
      engineCapacity @7 :EngineCapacity;
    }
  }
}

struct CollectGarbage {
  # Between two tasks: run the garbage collector, and return unused memory to the system.
  count @0 :UInt32;                    # number of items
  trimAboveBytes @1 :Data;             # UInt64 column: a processor with at most this much resident memory keeps it
}

struct TaskBlocked {
  # The task waits for other tasks: the agent may run others on the worker meanwhile, in other processors.
  count @0 :UInt32;          # number of items
  number @1 :Data;           # UInt32 column: number of the task, from 1, in the order in which this processor received them
  isStuck @2 :Data;          # byte column: 1 = it resumes only after ResumeTask; 0 = only one of its threads waits
  wait @3 :Data;             # UInt32 column: number of the wait, as in ClientResting; 0 = the process must not be stopped
  timeoutMs @4 :Data;        # UInt32 column: the wait ends after this number of milliseconds in any case; 0 = no limit
}

struct ResumeRequest {
  # The wait has ended: the task asks to resume, and waits for ResumeTask.
  count @0 :UInt32;          # number of items
  number @1 :Data;           # UInt32 column: of the task
}

struct TaskUnblocked {
  # No thread of the task waits any longer. It has resumed without asking.
  count @0 :UInt32;          # number of items
  number @1 :Data;           # UInt32 column: of the task
}

struct ResumeTask {
  # The task may resume.
  count @0 :UInt32;          # number of items
  number @1 :Data;           # UInt32 column: of the task
}

struct EndProcessor {
  # The processor is no longer needed. It ends, or reports ready again if clients in it have open tasks.
  count @0 :UInt32;          # number of items
  reason @1 :List(Text);     # for the log
}

struct ProcessorReady {
  # The processor has started and waits for work.
  count @0 :UInt32;          # number of items
  pid @1 :Data;              # UInt32 column: its process id
}

struct EngineDown {
  # The host of an engine has lost the engine, or cannot reach it.
  count @0 :UInt32;          # number of items
  isFinal @1 :Data;          # byte column: 1 = this host does not try again and ends; if none was ever ready, so does the node
  reason @2 :List(Text);     # a sentence: what happened, why, and what to do
}

struct EngineCapacity {
  # The number of tasks that the engine of a host can run at once now.
  count @0 :UInt32;          # number of items
  places @1 :Data;           # UInt32 column: number of tasks
}

struct TaskOutput {
  # A line that a task has written, as in RunOutput.
  count @0 :UInt32;          # number of items
  number @1 :Data;           # UInt32 column: of the task, as in TaskBlocked
  stream @2 :Data;           # byte column: as in RunOutput
  timeUs @3 :Data;           # UInt64 column: as in RunOutput
  dropped @4 :Data;          # UInt32 column: as in RunOutput
  text @5 :List(Text);       # as in RunOutput
}
