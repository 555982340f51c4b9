#include "tests/chaos/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace chaos {
namespace {

using common::cat;
using common::Result;
using common::Status;

constexpr int kCommandMs = 10'000;
constexpr const char* kNearEnd = "lfarm-near";
constexpr const char* kFarEnd = "lfarm-far";

common::Error refused(std::string_view what) {
  return common::unavailable(cat(what, ": ", std::strerror(errno)));
}

Status write_text(const std::string& path, const std::string& text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return refused(path);
  bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  Status status = written ? Status() : Status(refused(path));
  ::close(fd);
  return status;
}

Status ip(std::vector<std::string> words, const common::ChildSetup* where = nullptr) {
  words.insert(words.begin(), "ip");
  common::SpawnOptions options;
  options.arguments = words;
  options.setup = where;
  LFARM_ASSIGN_OR_RETURN(auto output, common::run_command(std::move(options), kCommandMs));
  if (!output.timed_out && output.status.code == 0 && output.status.signal == 0) return {};
  std::string command;
  for (const std::string& word : words) command += cat(command.empty() ? "" : " ", word);
  return common::unavailable(cat(command, ": ", output.output.substr(0, output.output.find('\n'))));
}

// A new network has a loopback that is down.
Status start_loopback() {
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool up = fd >= 0 && ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  Status status = up ? Status() : Status(refused("loopback"));
  if (fd >= 0) ::close(fd);
  return status;
}

// A new network for a child.
class NewNetwork final : public common::ChildSetup {
 public:
  common::SetupFailure enter() const override {
    if (::unshare(CLONE_NEWNET) != 0) return {errno, "unshare"};
    return {};
  }
};

}  // namespace

Status leave_the_machine() {
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) == 0) {
    LFARM_RETURN_IF_ERROR(write_text("/proc/self/setgroups", "deny"));
    LFARM_RETURN_IF_ERROR(write_text("/proc/self/uid_map", cat("0 ", user, " 1\n")));
    LFARM_RETURN_IF_ERROR(write_text("/proc/self/gid_map", cat("0 ", group, " 1\n")));
  } else if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
    return refused("unshare");
  }
  LFARM_RETURN_IF_ERROR(start_loopback());
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return refused("mount");
  return {};
}

Result<std::unique_ptr<FarNetwork>> FarNetwork::make() {
  NewNetwork fresh;
  common::SpawnOptions options;
  options.arguments = {"sleep", "infinity"};
  options.setup = &fresh;
  LFARM_ASSIGN_OR_RETURN(common::Subprocess holder, common::Subprocess::start(options));
  std::string pid = cat(holder.pid());
  int fd = ::open(cat("/proc/", pid, "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refused("the far network");
  std::unique_ptr<FarNetwork> network(new FarNetwork(std::move(holder), fd));
  LFARM_RETURN_IF_ERROR(ip({"link", "add", kNearEnd, "type", "veth", "peer", "name", kFarEnd}));
  LFARM_RETURN_IF_ERROR(ip({"link", "set", kFarEnd, "netns", pid}));
  LFARM_RETURN_IF_ERROR(ip({"addr", "add", near_address() + "/30", "dev", kNearEnd}));
  LFARM_RETURN_IF_ERROR(ip({"addr", "add", "10.213.0.2/30", "dev", kFarEnd}, network.get()));
  LFARM_RETURN_IF_ERROR(ip({"link", "set", kFarEnd, "up"}, network.get()));
  LFARM_RETURN_IF_ERROR(network->heal());
  return network;
}

FarNetwork::~FarNetwork() { ::close(fd_); }

Status FarNetwork::cut() { return ip({"link", "set", kNearEnd, "down"}); }
Status FarNetwork::heal() { return ip({"link", "set", kNearEnd, "up"}); }

common::SetupFailure FarNetwork::enter() const {
  if (::setns(fd_, CLONE_NEWNET) != 0) return {errno, "setns"};
  return {};
}

}  // namespace chaos
