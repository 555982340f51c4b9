// What several coordinators of one farm stand on: a cluster's API server for their lease, and a
// store that they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tests/cluster/fake_cluster.h"
#include "tests/farm/service/redis_server.h"

namespace chaos {

class Replicas {
 public:
  // With shards there is no cluster: their leases lie in the store. `folder` exists. kUnavailable
  // where this machine has no redis-server, or no openssl.
  static common::Result<std::unique_ptr<Replicas>> start(const std::string& folder,
                                                         bool has_shards);

  // What coordinator number `k` is started with.
  std::vector<std::string> arguments(int k) const;
  // The shared store answers nobody until it is healed.
  void cut() { store_->pause(); }
  void heal() { store_->go_on(); }
  pid_t store_pid() const { return store_->pid(); }

 private:
  Replicas() = default;
  std::unique_ptr<cluster_testing::FakeCluster> cluster_;
  std::unique_ptr<cache::RedisServer> store_;
};

}  // namespace chaos
