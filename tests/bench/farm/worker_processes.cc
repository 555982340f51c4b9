#include "tests/bench/farm/worker_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace bench {

using Json = nlohmann::ordered_json;

namespace {

// As many handshakes at a time as two cores do before those that wait give up.
constexpr size_t kConnectionsOfProcess = 2'000;
constexpr char kWelcome = 'w', kStop = 's';

void write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t wrote = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (wrote <= 0) throw std::runtime_error("a process of workers does not write");
    done += static_cast<size_t>(wrote);
  }
}

std::string read_all(int fd) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::string encode(const WorkersReport& report) {
  return Json{{"tasks", report.tasks},
              {"answers", report.answers},
              {"searches", report.searches},
              {"first_task_ns", report.first_task_ns},
              {"finalists", report.finalists},
              {"finalist_ns", report.finalist_ns},
              {"turnaround_ms", report.turnaround_ms}}
      .dump();
}

void add(const Json& part, WorkersReport& all) {
  all.tasks += part["tasks"].get<uint64_t>();
  all.answers += part["answers"].get<uint64_t>();
  all.searches += part["searches"].get<uint64_t>();
  all.finalists += part["finalists"].get<uint64_t>();
  auto first_ns = part["first_task_ns"].get<int64_t>();
  bool is_first = first_ns != 0 && (all.first_task_ns == 0 || first_ns < all.first_task_ns);
  if (is_first) all.first_task_ns = first_ns;
  all.finalist_ns = std::max(all.finalist_ns, part["finalist_ns"].get<int64_t>());
  for (double sample : part["turnaround_ms"]) all.turnaround_ms.push_back(sample);
}

void work(const std::vector<const FarmUnderLoad*>& farms, const WorkersOptions& options,
          int parent) {
  SimulatedWorkers workers(farms, options);
  if (!workers.wait_until_welcome()) throw std::runtime_error("not all workers were welcomed");
  write_all(parent, {kWelcome});
  char told = 0;
  if (::read(parent, &told, 1) == 1 && told == kStop) write_all(parent, encode(workers.finish()));
}

}  // namespace

WorkerProcesses::WorkerProcesses(const std::vector<const FarmUnderLoad*>& farms,
                                 const WorkersOptions& options) {
  const size_t share = std::max<size_t>(1, kConnectionsOfProcess / farms.size());
  for (size_t first = 0; first < options.workers; first += share) {
    WorkersOptions its = options;
    its.first = options.first + first;
    its.workers = std::min(share, options.workers - first);
    start(farms, its);
    wait_until_welcome(processes_.back());
  }
}

void WorkerProcesses::start(const std::vector<const FarmUnderLoad*>& farms,
                            const WorkersOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error("no socket");
  }
  pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    try {
      work(farms, options, ends[1]);
    } catch (const std::exception& exception) {
      std::fprintf(stderr, "lfarm-bench: workers: %s\n", exception.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  processes_.push_back({pid, ends[0]});
}

WorkerProcesses::~WorkerProcesses() {
  for (const Process& process : processes_) {
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    ::close(process.socket);
  }
}

void WorkerProcesses::wait_until_welcome(const Process& process) {
  char told = 0;
  if (::read(process.socket, &told, 1) != 1 || told != kWelcome) {
    throw std::runtime_error("not all workers were welcomed");
  }
}

double WorkerProcesses::cpu_s() const {
  double all = 0;
  for (const Process& process : processes_) all += process_use(process.pid).cpu_s;
  return all;
}

WorkersReport WorkerProcesses::finish() {
  WorkersReport all;
  for (const Process& process : processes_) write_all(process.socket, {kStop});
  for (const Process& process : processes_) {
    Json part = Json::parse(read_all(process.socket), nullptr, false);
    if (part.is_discarded()) throw std::runtime_error("a process of workers has failed");
    add(part, all);
  }
  return all;
}

}  // namespace bench
