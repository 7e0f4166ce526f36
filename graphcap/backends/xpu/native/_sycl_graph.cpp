// graphcap.backends.xpu._sycl_graph: SYCL command graphs for dpctl queues.
//
// One translation unit on the CPython limited API (3.10 and later), built with a plain C++17 compiler against the
// headers that the SYCL runtime's wheel brings. Four rules hold everywhere below:
//
//   1. No C++ exception leaves a function: every body runs inside guard(), which turns sycl::exception and
//      std::exception into RuntimeError. An exception that crossed dpctl's C interface would end the process.
//   2. The GIL is released around every call that may block or take a lock of the SYCL runtime, because host tasks
//      take the GIL on a thread of that runtime.
//   3. No thread waits inside SYCL for a host task. Such a wait holds the scheduler's lock; a thread that submits through
//      dpctl asks for that lock with the GIL; and the host task needs the GIL. So while host tasks are pending, waiting is
//      asking again and again (poll_until).
//   4. Nothing here owns a Python object except the capsules it returns. A host task carries a number; the Python
//      side keeps the callable that belongs to it, so a graph can be destroyed on any thread without the GIL.
//
// Queues arrive as the "SyclQueueRef" capsule of dpctl.SyclQueue._get_capsule(), events as the "SyclEventRef" capsule
// of dpctl.SyclEvent._get_capsule(); both are borrowed, and a capsule of any other name is a ValueError.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sycl/sycl.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace exp = sycl::ext::oneapi::experimental;

using Graph = exp::command_graph<exp::graph_state::modifiable>;
using Exec = exp::command_graph<exp::graph_state::executable>;

constexpr const char *graph_name = "graphcap.sycl.graph";
constexpr const char *exec_name = "graphcap.sycl.exec";
constexpr const char *queue_name = "SyclQueueRef";
constexpr const char *event_name = "SyclEventRef";

// The callable that runs host tasks, set once by set_host_dispatcher and never released; and whether the interpreter
// still accepts calls. Host tasks that start after close_host_tasks() do nothing.
PyObject *host_dispatcher = nullptr;
std::atomic<bool> host_tasks_open{false};
std::atomic<long> host_tasks_running{0};

// Host tasks that were submitted, or are in graphs that were launched, and have not run yet.
std::atomic<long> host_tasks_pending{0};

// Gives the GIL back on scope exit, whether the scope is left by return or by throw.
class WithoutGil {
public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *state_;
};

template <typename Body> PyObject *guard(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  } catch (const sycl::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception from the SYCL runtime");
  }
  return nullptr;
}

template <typename T> T *unwrap(PyObject *capsule, const char *name) {
  return static_cast<T *>(PyCapsule_GetPointer(capsule, name));  // sets ValueError when the name differs
}

// A capsule's destructor may run while an exception is set, on any thread that holds the GIL.
template <typename T> void destroy(PyObject *capsule) noexcept {
  const char *name = PyCapsule_GetName(capsule);
  T *object = static_cast<T *>(PyCapsule_GetPointer(capsule, name));
  if (object == nullptr) {
    PyErr_Clear();
    return;
  }
  WithoutGil released;
  try {
    delete object;
  } catch (...) {
    // A destructor that throws would end the process; the object is lost either way.
  }
}

void destroy_event(PyObject *capsule) noexcept {
  if (PyCapsule_IsValid(capsule, event_name)) {  // dpctl renames the capsule that it consumes
    destroy<sycl::event>(capsule);
  }
}

template <typename T> PyObject *wrap(T value, const char *name, PyCapsule_Destructor destructor) {
  T *object = new T(std::move(value));
  PyObject *capsule = PyCapsule_New(object, name, destructor);
  if (capsule == nullptr) {
    delete object;
  }
  return capsule;
}

void *address_of(PyObject *number) { return PyLong_AsVoidPtr(number); }

// The events in a list of "SyclEventRef" capsules; false with a Python exception set if one is none.
bool read_events(PyObject *list, std::vector<sycl::event> &events) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) {
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    auto *event = unwrap<sycl::event>(PyList_GetItem(list, i), event_name);
    if (event == nullptr) {
      return false;
    }
    events.push_back(*event);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- queues

PyObject *state(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    return PyLong_FromLong(queue->ext_oneapi_get_state() == exp::queue_state::recording ? 1 : 0);
  });
}

PyObject *support(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    const sycl::device device = queue->get_device();
    const long level = device.has(sycl::aspect::ext_oneapi_graph)           ? 2
                       : device.has(sycl::aspect::ext_oneapi_limited_graph) ? 1
                                                                            : 0;
    return PyLong_FromLong(level);
  });
}

// Returns once `done` says so, or once no host task is pending and SYCL may wait by itself. Called without the GIL.
template <typename Done> void poll_until(Done done) {
  auto pause = std::chrono::microseconds(5);
  while (host_tasks_pending > 0 && !done()) {
    std::this_thread::sleep_for(pause);
    if (pause < std::chrono::microseconds(100)) {
      pause *= 2;
    }
  }
}

PyObject *wait(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    {
      WithoutGil released;
      if (queue->ext_oneapi_get_state() == exp::queue_state::recording) {
        throw std::runtime_error("wait cannot be called for a queue which is recording to a command graph");
      }
      poll_until([queue] { return queue->ext_oneapi_empty(); });
      queue->wait_and_throw();
    }
    Py_RETURN_NONE;
  });
}

PyObject *wait_event(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *event = unwrap<sycl::event>(capsule, event_name);
    if (event == nullptr) {
      return nullptr;
    }
    {
      WithoutGil released;
      poll_until([event] {
        return event->get_info<sycl::info::event::command_execution_status>() ==
               sycl::info::event_command_status::complete;
      });
      event->wait_and_throw();
    }
    Py_RETURN_NONE;
  });
}

PyObject *is_idle(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    bool idle = false;
    {
      WithoutGil released;
      idle = queue->ext_oneapi_empty();
    }
    return PyBool_FromLong(idle);
  });
}

PyObject *fill_bytes(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *capsule = nullptr;
    PyObject *pointer = nullptr;
    int value = 0;
    Py_ssize_t count = 0;
    PyObject *list = nullptr;
    if (!PyArg_ParseTuple(args, "OOinO", &capsule, &pointer, &value, &count, &list)) {
      return nullptr;
    }
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    void *address = queue == nullptr ? nullptr : address_of(pointer);
    std::vector<sycl::event> waits;
    if (PyErr_Occurred() != nullptr || !read_events(list, waits)) {
      return nullptr;
    }
    std::optional<sycl::event> event;
    {
      WithoutGil released;
      event = queue->memset(address, value, static_cast<std::size_t>(count), waits);
    }
    return wrap(std::move(*event), event_name, destroy_event);
  });
}

// ---------------------------------------------------------------------------------------------- host tasks

// Counts a host task from before it looks whether tasks still run: once the count is 0 after closing, none can be on its
// way to the GIL.
class RunningHostTask {
public:
  RunningHostTask() { ++host_tasks_running; }
  ~RunningHostTask() {
    --host_tasks_pending;
    --host_tasks_running;
  }
  RunningHostTask(const RunningHostTask &) = delete;
  RunningHostTask &operator=(const RunningHostTask &) = delete;
};

void run_host_task(std::uint64_t token) noexcept {
  const RunningHostTask counted;
  if (!host_tasks_open) {
    return;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *result = PyObject_CallFunction(host_dispatcher, "K", static_cast<unsigned long long>(token));
  if (result == nullptr) {
    PyErr_WriteUnraisable(host_dispatcher);  // the dispatcher catches everything; this is its own failure
  }
  Py_XDECREF(result);
  PyGILState_Release(gil);
}

// Counts host tasks as pending from before they are submitted; takes that back if they were not.
class ExpectedHostTasks {
public:
  explicit ExpectedHostTasks(long count) : count_(count) { host_tasks_pending += count_; }
  ~ExpectedHostTasks() { host_tasks_pending -= count_; }
  ExpectedHostTasks(const ExpectedHostTasks &) = delete;
  ExpectedHostTasks &operator=(const ExpectedHostTasks &) = delete;
  void were_submitted() noexcept { count_ = 0; }

private:
  long count_;
};

PyObject *host_task(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *capsule = nullptr;
    unsigned long long token = 0;
    PyObject *list = nullptr;
    if (!PyArg_ParseTuple(args, "OKO", &capsule, &token, &list)) {
      return nullptr;
    }
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    std::vector<sycl::event> waits;
    if (queue == nullptr || !read_events(list, waits)) {
      return nullptr;
    }
    if (host_dispatcher == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "host_task: set_host_dispatcher was not called");
      return nullptr;
    }
    std::optional<sycl::event> event;
    {
      WithoutGil released;
      const bool eager = queue->ext_oneapi_get_state() == exp::queue_state::executing;
      ExpectedHostTasks expected(eager ? 1 : 0);
      event = queue->submit([token, &waits](sycl::handler &handler) {
        handler.depends_on(waits);
        handler.host_task([token] { run_host_task(token); });
      });
      expected.were_submitted();
    }
    return wrap(std::move(*event), event_name, destroy_event);
  });
}

PyObject *set_host_dispatcher(PyObject *, PyObject *callable) {
  if (!PyCallable_Check(callable)) {
    PyErr_SetString(PyExc_TypeError, "set_host_dispatcher: a callable is wanted");
    return nullptr;
  }
  Py_INCREF(callable);
  host_dispatcher = callable;  // an earlier one is never released: a task may be about to call it
  host_tasks_open = true;
  Py_RETURN_NONE;
}

PyObject *close_host_tasks(PyObject *, PyObject *) {
  host_tasks_open = false;
  Py_RETURN_NONE;
}

PyObject *count_running_host_tasks(PyObject *, PyObject *) { return PyLong_FromLong(host_tasks_running); }

// ---------------------------------------------------------------------------------------------- recording

PyObject *begin(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *queue = unwrap<sycl::queue>(capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    Graph graph(queue->get_context(), queue->get_device());
    graph.begin_recording(*queue);
    return wrap(std::move(graph), graph_name, destroy<Graph>);
  });
}

PyObject *join(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *graph_capsule = nullptr;
    PyObject *queue_capsule = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &graph_capsule, &queue_capsule)) {
      return nullptr;
    }
    auto *graph = unwrap<Graph>(graph_capsule, graph_name);
    auto *queue = graph == nullptr ? nullptr : unwrap<sycl::queue>(queue_capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    graph->begin_recording(*queue);
    Py_RETURN_NONE;
  });
}

PyObject *end(PyObject *, PyObject *capsule) {
  return guard([&]() -> PyObject * {
    auto *graph = unwrap<Graph>(capsule, graph_name);
    if (graph == nullptr) {
      return nullptr;
    }
    {
      WithoutGil released;
      graph->end_recording();  // without an argument: queues that were forked in end, too
    }
    Py_RETURN_NONE;
  });
}

// ---------------------------------------------------------------------------------------------- graphs

// (type, [indices of the predecessors]) per node, in the order in which they were recorded. The nodes that belong to
// the events given are named by index in the second list.
PyObject *nodes(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *capsule = nullptr;
    PyObject *events = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &events)) {
      return nullptr;
    }
    auto *graph = unwrap<Graph>(capsule, graph_name);
    if (graph == nullptr) {
      return nullptr;
    }
    const std::vector<exp::node> all = graph->get_nodes();
    // Predecessors were nearly always recorded just before, so the search runs backwards from the node.
    const auto index_of = [&all](const exp::node &wanted, std::size_t from) -> Py_ssize_t {
      for (std::size_t i = from; i-- > 0;) {
        if (all[i] == wanted) {
          return static_cast<Py_ssize_t>(i);
        }
      }
      for (std::size_t i = from; i < all.size(); ++i) {
        if (all[i] == wanted) {
          return static_cast<Py_ssize_t>(i);
        }
      }
      return -1;
    };
    PyObject *result = PyList_New(0);
    PyObject *marked = PyList_New(0);
    bool good = result != nullptr && marked != nullptr;
    for (std::size_t i = 0; good && i < all.size(); ++i) {
      PyObject *edges = PyList_New(0);
      good = edges != nullptr;
      if (good) {
        for (const exp::node &predecessor : all[i].get_predecessors()) {
          PyObject *index = PyLong_FromSsize_t(index_of(predecessor, i));
          good = index != nullptr && PyList_Append(edges, index) == 0;
          Py_XDECREF(index);
          if (!good) {
            break;
          }
        }
      }
      PyObject *entry = good ? Py_BuildValue("(iO)", static_cast<int>(all[i].get_type()), edges) : nullptr;
      Py_XDECREF(edges);
      good = entry != nullptr && PyList_Append(result, entry) == 0;
      Py_XDECREF(entry);
    }
    std::vector<sycl::event> wanted;
    good = good && read_events(events, wanted);
    for (std::size_t i = 0; good && i < wanted.size(); ++i) {
      PyObject *index = PyLong_FromSsize_t(index_of(exp::node::get_node_from_event(wanted[i]), all.size()));
      good = index != nullptr && PyList_Append(marked, index) == 0;
      Py_XDECREF(index);
    }
    PyObject *pair = good ? PyTuple_Pack(2, result, marked) : nullptr;
    Py_XDECREF(result);
    Py_XDECREF(marked);
    return pair;
  });
}

PyObject *print(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *capsule = nullptr;
    const char *path = nullptr;
    int verbose = 1;
    if (!PyArg_ParseTuple(args, "Os|p", &capsule, &path, &verbose)) {
      return nullptr;
    }
    auto *graph = unwrap<Graph>(capsule, graph_name);
    if (graph == nullptr) {
      return nullptr;
    }
    graph->print_graph(std::string(path), verbose != 0);
    Py_RETURN_NONE;
  });
}

PyObject *finalize(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *capsule = nullptr;
    int updatable = 0;
    if (!PyArg_ParseTuple(args, "O|p", &capsule, &updatable)) {
      return nullptr;
    }
    auto *graph = unwrap<Graph>(capsule, graph_name);
    if (graph == nullptr) {
      return nullptr;
    }
    std::optional<Exec> exec;
    {
      WithoutGil released;
      if (updatable != 0) {
        exec.emplace(graph->finalize({exp::property::graph::updatable{}}));
      } else {
        exec.emplace(graph->finalize());
      }
    }
    return wrap(std::move(*exec), exec_name, destroy<Exec>);
  });
}

PyObject *update(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *exec_capsule = nullptr;
    PyObject *graph_capsule = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &exec_capsule, &graph_capsule)) {
      return nullptr;
    }
    auto *exec = unwrap<Exec>(exec_capsule, exec_name);
    auto *graph = exec == nullptr ? nullptr : unwrap<Graph>(graph_capsule, graph_name);
    if (graph == nullptr) {
      return nullptr;
    }
    {
      WithoutGil released;
      exec->update(*graph);
    }
    Py_RETURN_NONE;
  });
}

PyObject *launch(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *exec_capsule = nullptr;
    PyObject *queue_capsule = nullptr;
    long host_tasks = 0;
    if (!PyArg_ParseTuple(args, "OOl", &exec_capsule, &queue_capsule, &host_tasks)) {
      return nullptr;
    }
    auto *exec = unwrap<Exec>(exec_capsule, exec_name);
    auto *queue = exec == nullptr ? nullptr : unwrap<sycl::queue>(queue_capsule, queue_name);
    if (queue == nullptr) {
      return nullptr;
    }
    std::optional<sycl::event> event;
    {
      WithoutGil released;
      ExpectedHostTasks expected(host_tasks);
      event = queue->ext_oneapi_graph(*exec);
      expected.were_submitted();
    }
    return wrap(std::move(*event), event_name, destroy_event);
  });
}

PyMethodDef methods[] = {
    {"state", state, METH_O, "state(queue) -> int\n\n0 when the queue executes, 1 when it records."},
    {"support", support, METH_O, "support(queue) -> int\n\n2 full graph aspect, 1 limited, 0 none."},
    {"wait", wait, METH_O, "wait(queue)\n\nWait for the queue; RuntimeError when it records."},
    {"wait_event", wait_event, METH_O, "wait_event(event)\n\nWait for the work of an event."},
    {"is_idle", is_idle, METH_O, "is_idle(queue) -> bool\n\nWhether all work of the queue is complete."},
    {"fill_bytes", fill_bytes, METH_VARARGS,
     "fill_bytes(queue, pointer, value, count, events) -> event\n\nAsynchronous memset of USM memory."},
    {"host_task", host_task, METH_VARARGS,
     "host_task(queue, token, events) -> event\n\nCall the dispatcher with the token in the queue's order."},
    {"set_host_dispatcher", set_host_dispatcher, METH_O,
     "set_host_dispatcher(callable)\n\nThe callable that host tasks call with their token."},
    {"close_host_tasks", close_host_tasks, METH_NOARGS,
     "close_host_tasks()\n\nFrom now on host tasks do nothing; for the end of the interpreter."},
    {"host_tasks_running", count_running_host_tasks, METH_NOARGS,
     "host_tasks_running() -> int\n\nHow many host tasks run, or are about to."},
    {"begin", begin, METH_O, "begin(queue) -> graph\n\nA new graph into which the queue records."},
    {"join", join, METH_VARARGS, "join(graph, queue)\n\nLet a further queue record into the graph."},
    {"end", end, METH_O, "end(graph)\n\nEvery queue that records into the graph executes again."},
    {"nodes", nodes, METH_VARARGS,
     "nodes(graph, events) -> ([(type, [predecessor, ...]), ...], [index, ...])\n\n"
     "The nodes in recorded order, and the node of each event."},
    {"print", print, METH_VARARGS, "print(graph, path, verbose=True)\n\nWrite SYCL's DOT text."},
    {"finalize", finalize, METH_VARARGS,
     "finalize(graph, updatable=False) -> exec\n\nThe executable graph of the recorded one."},
    {"update", update, METH_VARARGS, "update(exec, graph)\n\nWhole-graph update of an updatable executable."},
    {"launch", launch, METH_VARARGS, "launch(exec, queue, host_tasks) -> event\n\nEnqueue the executable graph, which has so many host tasks."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_sycl_graph",
    "SYCL command graphs for dpctl queues; see graphcap.backends.xpu.native.",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__sycl_graph() {
  PyObject *module = PyModule_Create(&definition);
  if (module != nullptr && PyModule_AddIntConstant(module, "SYCL_MAJOR", __LIBSYCL_MAJOR_VERSION) != 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
