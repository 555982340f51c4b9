// The API of the Kubernetes cluster that this process runs in, as far as lfarm uses it.
// Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/http/http_client.h"

namespace common {

// A coordination.k8s.io/v1 Lease. Times are whole microseconds since 1970, as its clock has them.
struct LeaseRecord {
  std::string holder;      // empty: nobody
  int64_t duration_s = 0;  // what the holder promised to renew within
  int64_t renewed_us = 0;
  int64_t acquired_us = 0;
  int64_t transitions = 0;       // of holders
  std::string resource_version;  // of what was read; a write of another version is refused
};

struct ClusterOptions {
  // Where a pod finds its account: token, ca.crt and namespace.
  std::string account_directory = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::optional<HttpEndpoint> server;  // else as KUBERNETES_SERVICE_HOST and _PORT say
  int64_t timeout_ms = 5'000;
};

// Thread-safe. The token is read anew for each request: clusters replace it.
class Cluster {
 public:
  // kInvalidInput outside of a cluster.
  static Result<Cluster> find(const ClusterOptions& options = {});

  const std::string& space() const { return space_; }

  // Sets one annotation of a pod of this namespace. Errors: kUnavailable when the API does not
  // answer, kInvalidInput when it refuses (no such pod, no right to change it).
  Status annotate_pod(const std::string& pod, const std::string& name,
                      const std::string& value) const;

  // Nothing when there is no such lease.
  Result<std::optional<LeaseRecord>> read_lease(const std::string& name) const;
  // Makes or replaces it; false when somebody else was faster.
  Result<bool> write_lease(const std::string& name, const LeaseRecord& record) const;

 private:
  Cluster(HttpEndpoint server, ClusterOptions options, std::string space)
      : server_(std::move(server)), options_(std::move(options)), space_(std::move(space)) {}
  Result<HttpReply> call(HttpCall call) const;

  HttpEndpoint server_;
  ClusterOptions options_;
  std::string space_;
};

}  // namespace common
