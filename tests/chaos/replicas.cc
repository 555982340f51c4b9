#include "tests/chaos/replicas.h"

#include <cstdlib>

#include "common/base/cat.h"

namespace chaos {

using common::cat;

common::Result<std::unique_ptr<Replicas>> Replicas::start(const std::string& folder,
                                                          bool has_shards) {
  std::unique_ptr<Replicas> replicas(new Replicas());
  if (!cache::RedisServer::is_there()) {
    return common::unavailable("several coordinators need redis-server, for what they share");
  }
  replicas->store_ = std::make_unique<cache::RedisServer>();
  if (has_shards) return replicas;
  replicas->cluster_ = cluster_testing::FakeCluster::start(folder);
  if (replicas->cluster_ == nullptr) {
    return common::unavailable(
        "several coordinators need openssl, for their cluster's certificate");
  }
  // As in a pod; inherited by the coordinators.
  ::setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", cat(replicas->cluster_->port()).c_str(), 1);
  return replicas;
}

std::vector<std::string> Replicas::arguments(int k) const {
  if (cluster_ == nullptr) {
    return {"--shards", "64", "--identity", cat("coordinator-", k), "--remote", store_->address(),
            // As long as a busy machine may keep one from renewing.
            "--shard-lease-ms", "8000"};
  }
  return {"--lease",           "farm",     "--identity",     cat("coordinator-", k), "--account",
          cluster_->account(), "--remote", store_->address()};
}

}  // namespace chaos
