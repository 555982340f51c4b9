// What the entry points of the emulated driver share: its tables, and the ways work gets in.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/emulator/device/streams.h"
#include "tests/emulator/driver/driver_codes.h"

#define LF_API extern "C" __attribute__((visibility("default"))) int

namespace emulator {

constexpr int kDevicesMax = 10;  // a digit tells them apart

// A device's primary context: its memory, its default stream, and the error that it is left with.
struct Context {
  int retained = 0;  // alive while it is not 0
  Executor executor;
  Stream null_stream;
};

struct Function {
  Context* context = nullptr;
  std::shared_ptr<Module> module;
  const lf_emu::Kernel* kernel = nullptr;
  unsigned static_shared = 0;
  unsigned dynamic_shared_max = 0;
};

struct LoadedModule {
  Context* context = nullptr;
  std::shared_ptr<Module> module;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

struct RecordedEvent {
  std::shared_ptr<Event> event = std::make_shared<Event>();
  Stream* stream = nullptr;
  Context* context = nullptr;
};

template <class T>
using Table = std::unordered_map<void*, std::unique_ptr<T>>;

// All of the driver's state behind one lock. It is never destroyed: helper threads may still wait
// on it while the process exits.
struct Driver {
  std::mutex mutex;
  bool is_initialised = false;
  std::vector<int> devices;  // those that are visible, by their numbers on the machine
  std::array<Context, kDevicesMax> contexts;  // of the visible devices
  Table<Stream> streams;
  Table<RecordedEvent> events;
  Table<LoadedModule> modules;
  Table<Graph> graphs;
  Table<Executable> executables;
  std::unordered_map<std::string, int> calls;  // how often those that tests count succeeded
  std::unordered_map<uintptr_t, std::vector<std::byte>> pinned;
};

Driver& driver();
// The calling thread's contexts, the current one last.
std::vector<Context*>& context_stack();
// Null when there is none.
Context* current_context();
// Of the current context, which there is.
Executor& executor();
// The context behind a handle; null for what is none.
Context* find_context(void* handle);
// Ends all that lives in a context that nobody retains any more.
void destroy(Context* context);
// Which captures of which threads forbid the calling one what is not safe meanwhile.
CaptureMode& capture_mode();

// Enters the driver: takes its lock and finds out what every call may fail with.
class Call {
 public:
  enum class Needs { kNothing, kDevice, kContext };
  explicit Call(Needs needs = Needs::kContext);
  // About a device, in the order of the visible ones.
  explicit Call(int device);
  int error = 0;

 private:
  std::lock_guard<std::mutex> lock_;
};

// Success, noted under the function's name.
int counted(const char* name);
// Copies what the operation's function declares; false where it cannot be launched so.
bool set_parameters(Operation& op, void** parameters);

// Null when there is no such object; the current context's default stream has no handle.
Stream* find_stream(void* handle);
template <class T>
T* find(Table<T>& table, void* handle) {
  auto found = table.find(handle);
  return found == table.end() ? nullptr : found->second.get();
}
// The handle under which the table has the object.
template <class T>
void* keep(Table<T>& table, std::unique_ptr<T> object) {
  void* handle = object.get();
  table[handle] = std::move(object);
  return handle;
}

// Calls that wait or allocate break a capture that forbids them, and fail.
int refuse_in_capture();
// All work of the current context.
int drain_all();
// Work for a stream: into its graph while it captures, at once on the null stream, else later.
int issue(void* stream, Operation operation);
// Work that is done when the call returns.
int issue_and_wait(Operation operation);

}  // namespace emulator
