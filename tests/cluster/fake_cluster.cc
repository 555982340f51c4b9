#include "tests/cluster/fake_cluster.h"

#include <httplib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"

namespace cluster_testing {

using common::cat;
using Json = nlohmann::json;

namespace {

constexpr const char* kSpace = "farm";

bool make_certificate(const std::string& folder) {
  common::SpawnOptions spawn;
  spawn.arguments = {"/usr/bin/openssl",
                     "req",
                     "-x509",
                     "-newkey",
                     "ec",
                     "-pkeyopt",
                     "ec_paramgen_curve:P-256",
                     "-nodes",
                     "-days",
                     "2",
                     "-subj",
                     "/CN=cluster",
                     "-addext",
                     "subjectAltName=IP:127.0.0.1",
                     "-keyout",
                     folder + "/key.pem",
                     "-out",
                     folder + "/ca.crt"};
  FILE* nowhere = std::fopen("/dev/null", "w");
  spawn.stderr_fd = fileno(nowhere);
  auto process = common::Subprocess::start(spawn);
  std::fclose(nowhere);
  if (!process.ok()) return false;
  constexpr int kPatienceMs = 600'000;
  auto status = process->wait(kPatienceMs);
  return status && status->code == 0 && status->signal == 0;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void answer(httplib::Response& response, int status, const Json& body) {
  response.status = status;
  response.set_content(body.dump(), "application/json");
}

}  // namespace

struct FakeCluster::Running {
  Running(const std::string& certificate, const std::string& key)
      : server(certificate.c_str(), key.c_str()) {}
  httplib::SSLServer server;
  std::thread thread;
};

FakeCluster::FakeCluster(std::string folder)
    : folder_(std::move(folder)), account_(folder_ + "/account") {}

std::unique_ptr<FakeCluster> FakeCluster::start(const std::string& folder) {
  std::unique_ptr<FakeCluster> cluster(new FakeCluster(folder));
  std::filesystem::create_directories(cluster->account_);
  if (!make_certificate(cluster->account_) || !cluster->listen()) return nullptr;
  write(cluster->account_ + "/token", cluster->token_ + "\n");
  write(cluster->account_ + "/namespace", kSpace);
  return cluster;
}

bool FakeCluster::listen() {
  running_ = std::make_unique<Running>(account_ + "/ca.crt", account_ + "/key.pem");
  httplib::SSLServer& server = running_->server;
  if (!server.is_valid()) return false;
  using Handler = void (FakeCluster::*)(const httplib::Request&, httplib::Response&);
  auto guarded = [this](Handler handler) {
    return [this, handler](const httplib::Request& request, httplib::Response& response) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (may(request, response)) (this->*handler)(request, response);
    };
  };
  const std::string leases = cat("/apis/coordination.k8s.io/v1/namespaces/", kSpace, "/leases");
  server.Get(leases + "/([a-z0-9-]+)", guarded(&FakeCluster::get_lease));
  server.Post(leases, guarded(&FakeCluster::make_lease));
  server.Put(leases + "/([a-z0-9-]+)", guarded(&FakeCluster::replace_lease));
  server.Patch(cat("/api/v1/namespaces/", kSpace, "/pods/([a-z0-9-]+)"),
               guarded(&FakeCluster::patch_pod));
  port_ = server.bind_to_any_port("127.0.0.1");
  if (port_ < 0) return false;
  running_->thread = std::thread([&server] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
  return true;
}

FakeCluster::~FakeCluster() {
  if (!running_ || !running_->thread.joinable()) return;
  running_->server.stop();
  running_->thread.join();
}

common::ClusterOptions FakeCluster::options() const {
  common::ClusterOptions options;
  options.account_directory = account_;
  options.server = common::HttpEndpoint{"127.0.0.1", port_, true, account_ + "/ca.crt"};
  return options;
}

bool FakeCluster::may(const httplib::Request& request, httplib::Response& response) const {
  if (failure_ != 0) {
    answer(response, failure_, {{"kind", "Status"}, {"message", "the server is ill"}});
    return false;
  }
  if (request.get_header_value("Authorization") == "Bearer " + token_) return true;
  answer(response, 401, {{"kind", "Status"}, {"message", "Unauthorized"}});
  return false;
}

void FakeCluster::get_lease(const httplib::Request& request, httplib::Response& response) {
  auto found = leases_.find(request.matches[1]);
  if (found == leases_.end()) return answer(response, 404, {{"message", "not found"}});
  response.set_content(found->second, "application/json");
}

void FakeCluster::make_lease(const httplib::Request& request, httplib::Response& response) {
  Json lease = Json::parse(request.body);
  std::string name = lease["metadata"]["name"];
  if (leases_.count(name) != 0) return answer(response, 409, {{"message", "already exists"}});
  lease["metadata"]["resourceVersion"] = cat(++version_);
  leases_[name] = lease.dump();
  answer(response, 201, lease);
}

void FakeCluster::replace_lease(const httplib::Request& request, httplib::Response& response) {
  Json lease = Json::parse(request.body);
  auto found = leases_.find(request.matches[1]);
  if (found == leases_.end()) return answer(response, 404, {{"message", "not found"}});
  Json old = Json::parse(found->second);
  if (old["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]) {
    return answer(response, 409, {{"message", "the object has been modified"}});
  }
  lease["metadata"]["resourceVersion"] = cat(++version_);
  found->second = lease.dump();
  answer(response, 200, lease);
}

void FakeCluster::patch_pod(const httplib::Request& request, httplib::Response& response) {
  auto pod = pods_.find(request.matches[1]);
  if (pod == pods_.end()) return answer(response, 404, {{"message", "pods not found"}});
  if (request.get_header_value("Content-Type") != "application/merge-patch+json") {
    return answer(response, 415, {{"message", "unsupported media type"}});
  }
  Json patch = Json::parse(request.body);
  for (const auto& [name, value] : patch["metadata"]["annotations"].items()) {
    pod->second[name] = value;
  }
  answer(response, 200, Json::object());
}

void FakeCluster::put_lease(const std::string& name, const std::string& holder,
                            int64_t duration_s) {
  std::lock_guard<std::mutex> lock(mutex_);
  Json lease = {{"metadata", {{"name", name}, {"resourceVersion", cat(++version_)}}},
                {"spec",
                 {{"holderIdentity", holder},
                  {"leaseDurationSeconds", duration_s},
                  {"renewTime", cat("2026-01-01T00:00:00.", version_, "Z")},
                  {"leaseTransitions", 3}}}};
  leases_[name] = lease.dump();
}

std::string FakeCluster::holder(const std::string& lease) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = leases_.find(lease);
  if (found == leases_.end()) return "none";
  return Json::parse(found->second)["spec"]["holderIdentity"].get<std::string>();
}

int64_t FakeCluster::writes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return version_ - 1;
}

int64_t FakeCluster::transitions(const std::string& lease) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Json::parse(leases_.at(lease))["spec"]["leaseTransitions"].get<int64_t>();
}

std::string FakeCluster::annotation(const std::string& pod, const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = pods_.find(pod);
  if (found == pods_.end() || found->second.count(name) == 0) return "none";
  return found->second.at(name);
}

void FakeCluster::add_pod(const std::string& pod) {
  std::lock_guard<std::mutex> lock(mutex_);
  pods_[pod];
}

void FakeCluster::fail_with(int status) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = status;
}

void FakeCluster::replace_token(const std::string& token) {
  std::lock_guard<std::mutex> lock(mutex_);
  token_ = token;
  write(account_ + "/token", token);
}

}  // namespace cluster_testing
