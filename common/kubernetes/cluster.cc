#include "common/kubernetes/cluster.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {

using Json = nlohmann::json;

constexpr size_t kAccountFileBytesMax = 64 << 10;
constexpr int64_t kMicro = 1'000'000;

Result<std::string> read_line(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, read_file(path, kAccountFileBytesMax));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.empty()) return unavailable(cat(path, " is empty"));
  return text;
}

// RFC 3339 with microseconds, as metav1.MicroTime is written.
std::string as_micro_time(int64_t us) {
  std::time_t seconds = us / kMicro;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%06ldZ", date, static_cast<long>(us % kMicro));
  return text;
}

// Zero for what is no such time.
int64_t micro_time(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return 0;
  int64_t fraction = 0, scale = kMicro;
  if (*rest == '.') {
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest) {
      if (scale > 1) {
        scale /= 10;
        fraction += (*rest - '0') * scale;
      }
    }
  }
  return static_cast<int64_t>(::timegm(&parts)) * kMicro + fraction;
}

Error refused(const HttpCall& call, const HttpReply& reply) {
  Json said = Json::parse(reply.body, nullptr, false);
  std::string why = said.is_object() ? said.value("message", "") : "";
  constexpr size_t kShown = 200;
  Code code = reply.status >= 500 || reply.status == 429 ? Code::kUnavailable : Code::kInvalidInput;
  return {code, cat("the cluster's API refuses ", call.method, ' ', call.path, " with ",
                    reply.status, why.empty() ? "" : ": ", why.substr(0, kShown))};
}

template <class T>
T field(const Json& object, const char* name, T otherwise) {
  auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->template get<std::string>() : otherwise;
  } else {
    return found->is_number_integer() ? found->template get<T>() : otherwise;
  }
}

LeaseRecord lease_of(const Json& object) {
  LeaseRecord record;
  if (object.contains("metadata")) {
    record.resource_version = field<std::string>(object["metadata"], "resourceVersion", "");
  }
  if (!object.contains("spec") || !object["spec"].is_object()) return record;
  const Json& spec = object["spec"];
  record.holder = field<std::string>(spec, "holderIdentity", "");
  record.duration_s = field<int64_t>(spec, "leaseDurationSeconds", 0);
  record.renewed_us = micro_time(field<std::string>(spec, "renewTime", ""));
  record.acquired_us = micro_time(field<std::string>(spec, "acquireTime", ""));
  record.transitions = field<int64_t>(spec, "leaseTransitions", 0);
  return record;
}

}  // namespace

Result<Cluster> Cluster::find(const ClusterOptions& options) {
  auto own_space = read_line(options.account_directory + "/namespace");
  if (!own_space.ok()) {
    return invalid_input(cat("this is no pod of a cluster, or one without a service account: ",
                             own_space.error().message));
  }
  std::string space = std::move(own_space).value();
  if (options.server) return Cluster(*options.server, options, std::move(space));
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  HttpEndpoint server;
  bool is_port =
      port != nullptr &&
      std::from_chars(port, port + std::string_view(port).size(), server.port).ec == std::errc();
  if (host == nullptr || !is_port) {
    return invalid_input("no KUBERNETES_SERVICE_HOST and _PORT: this is no pod of a cluster");
  }
  server.host = host;
  server.tls = true;
  server.ca_file = options.account_directory + "/ca.crt";
  return Cluster(std::move(server), options, std::move(space));
}

Result<HttpReply> Cluster::call(HttpCall call) const {
  LFARM_ASSIGN_OR_RETURN(std::string token, read_line(options_.account_directory + "/token"));
  call.headers["Authorization"] = "Bearer " + token;
  call.headers["Accept"] = "application/json";
  call.timeout_ms = options_.timeout_ms;
  return http_call(server_, call);
}

Status Cluster::annotate_pod(const std::string& pod, const std::string& name,
                             const std::string& value) const {
  HttpCall patch;
  patch.method = "PATCH";
  patch.path = cat("/api/v1/namespaces/", space_, "/pods/", pod);
  patch.content_type = "application/merge-patch+json";
  patch.body = Json{{"metadata", {{"annotations", {{name, value}}}}}}.dump();
  LFARM_ASSIGN_OR_RETURN(HttpReply reply, call(patch));
  if (reply.status / 100 != 2) return refused(patch, reply);
  return {};
}

Result<std::optional<LeaseRecord>> Cluster::read_lease(const std::string& name) const {
  HttpCall get;
  get.path = cat("/apis/coordination.k8s.io/v1/namespaces/", space_, "/leases/", name);
  LFARM_ASSIGN_OR_RETURN(HttpReply reply, call(get));
  if (reply.status == 404) return std::optional<LeaseRecord>();
  if (reply.status != 200) return refused(get, reply);
  Json object = Json::parse(reply.body, nullptr, false);
  if (!object.is_object()) return unavailable("the cluster's API answered with no JSON object");
  return std::optional(lease_of(object));
}

Result<bool> Cluster::write_lease(const std::string& name, const LeaseRecord& record) const {
  bool is_new = record.resource_version.empty();
  Json metadata = {{"name", name}, {"namespace", space_}};
  if (!is_new) metadata["resourceVersion"] = record.resource_version;
  Json spec = {{"holderIdentity", record.holder},
               {"leaseDurationSeconds", record.duration_s},
               {"acquireTime", as_micro_time(record.acquired_us)},
               {"renewTime", as_micro_time(record.renewed_us)},
               {"leaseTransitions", record.transitions}};
  HttpCall write;
  write.method = is_new ? "POST" : "PUT";
  write.path =
      cat("/apis/coordination.k8s.io/v1/namespaces/", space_, "/leases", is_new ? "" : "/" + name);
  write.body = Json{
      {"apiVersion", "coordination.k8s.io/v1"},
      {"kind", "Lease"},
      {"metadata", metadata},
      {"spec",
       spec}}.dump();
  LFARM_ASSIGN_OR_RETURN(HttpReply reply, call(write));
  constexpr int kConflict = 409;
  if (reply.status == kConflict) return false;
  if (reply.status / 100 != 2) return refused(write, reply);
  return true;
}

}  // namespace common
