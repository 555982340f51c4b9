// Objects of plans in a bucket of an object store that speaks the protocol of Amazon S3: Amazon's
// own, MinIO, Ceph, Garage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/remote/idle_connections.h"
#include "cache/remote/remote_objects.h"
#include "cache/s3/s3_address.h"
#include "cache/s3/s3_credentials.h"
#include "common/http/http_client.h"

namespace cache {

struct S3Options {
  S3Address address;
  // See read_s3_credentials. The file is read for each exchange, so that keys may be changed there.
  std::string credentials_file;
  int64_t answer_ms = 2'000;     // until a round of requests without bodies is answered
  int64_t transfer_ms = 20'000;  // until a plan's objects have come or gone
  RetryTimes retry;
};

// Objects of one plan go over several connections at a time, which stay open.
class S3Objects final : public RemoteObjects {
 public:
  explicit S3Objects(S3Options options);
  S3Objects(const S3Objects&) = delete;
  S3Objects& operator=(const S3Objects&) = delete;

  common::Result<std::optional<std::vector<std::string>>> get_objects(
      std::span<const common::Digest> digests) override;
  common::Result<bool> has_objects(std::span<const common::Digest> digests) override;
  common::Status put_objects(std::span<const RemoteObject> objects) override;
  RemoteHealth health() const override { return breaker_.health(); }
  const std::string& address() const { return options_.address.text; }

 private:
  struct Question {
    common::Digest digest;
    std::string_view body;  // of a PUT
  };
  using Replies = std::vector<common::HttpReply>;
  common::Result<Replies> ask(const char* method, std::span<const Question> questions,
                              int64_t limit_ms);
  common::Result<Replies> exchange(const char* method, std::span<const Question> questions,
                                   int64_t deadline_ns);
  common::Result<common::HttpReply> call(const common::HttpCall& call);
  common::Result<std::vector<bool>> there(std::span<const common::Digest> digests);

  static constexpr size_t kConnectionsMax = 8;
  const S3Options options_;
  CircuitBreaker breaker_;
  IdleConnections<common::HttpConnection> idle_{kConnectionsMax};
};

}  // namespace cache
