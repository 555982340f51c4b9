// A client's connection to a farm: to one coordinator at a time, of which another one takes the
// place when it is gone or says that another one serves what is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/wire/context.h"
#include "common/wire/messages.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"

namespace clients {

struct FarmLinkOptions {
  // Of a farm with several coordinators: those of some of them, after commas.
  std::string endpoint;
  // Needed unless the endpoint is local.
  std::optional<common::ClientKeys> keys;
  int connect_ms_max = 3000;    // until the farm has answered for the first time
  int silence_ms_max = 30'000;  // without a connection, once there was one
  common::ProtocolRange protocol = common::kProtocolsSpoken;
  // Called several times a second while the client waits; its error ends the wait.
  std::function<common::Status()> on_wait;
};

// Not thread-safe. A connection that breaks is made again, and what was asked and is not answered
// is asked again, which a farm takes as the same request.
class FarmLink {
 public:
  explicit FarmLink(FarmLinkOptions options);
  // Says hello to the first of the named coordinators that answers. kUnavailable when none does.
  common::Status open();

  // Of the coordinator that is asked now.
  const std::string& endpoint() const { return coordinators_.endpoint; }
  const common::Welcome& welcome() const { return welcome_; }
  // How often a coordinator has answered a hello: once more after each new connection, and after
  // the coordinator was started again.
  uint64_t welcomes() const { return hellos_.answered; }

  // Sends questions in the place of those before, which are not asked again any more.
  common::Status ask(std::vector<common::Packet> questions);
  const std::vector<common::Packet>& questions() const { return questions_; }
  // For the coordinator of now alone.
  common::Status send(const common::Message& message, const common::SharedBytes& blob = {});
  // The next packet that is not about the connection itself; empty when none came for a while.
  common::Result<std::optional<common::Packet>> receive();
  // Waits until packets have come, or `wake_fd` can be read (-1: none).
  common::Status wait_for_arrivals(int wait_ms, int wake_fd);
  bool has_arrivals() const { return taken_ < arrived_.size(); }
  // What to do with an answer that names another coordinator, or a time after which to ask again:
  // true when the questions were asked again there or then. False: the answer is a failure.
  common::Result<bool> ask_again(const common::JobFailed& failed);

 private:
  struct Hellos {
    uint64_t said = 0;        // connections on which hello was said
    uint64_t answered = 0;    // welcomes that came, ever
    bool is_welcome = false;  // on the connection of today
    int refused = 0;          // in a row
  };
  struct Coordinators {
    std::vector<std::string> named;
    size_t next = 0;  // of the named ones, to be tried
    std::string endpoint;
    std::string server_key;  // empty: that of the options
    int64_t asked_ns = 0;    // since when coordinators send the questions to one another; 0: never
  };
  common::Status connect_to_coordinator();
  common::Status await_welcome();
  common::Status move_on();
  bool is_one_of_many() const;
  common::Status say_hello();
  common::Status repeat_questions();
  common::Result<std::optional<common::Packet>> handle(common::Packet packet);
  common::Status check_handshake() const;
  common::Status check_connection();
  bool is_gone(int64_t now_ns);

  const FarmLinkOptions options_;
  Coordinators coordinators_;
  common::WireContext context_;
  std::optional<common::DealerSocket> socket_;
  common::Welcome welcome_;
  Hellos hellos_;
  int64_t alive_ns_ = 0;                   // when the connection was last seen up; 0: never
  int64_t looked_ns_ = 0;                  // when somebody was last looked for without it
  std::vector<common::Packet> questions_;  // not answered
  std::vector<common::Result<common::Packet>> arrived_;
  size_t taken_ = 0;
};

}  // namespace clients
