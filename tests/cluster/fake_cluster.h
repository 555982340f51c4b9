// A cluster's API server as far as lfarm asks it: pods' annotations and Leases, over TLS, with
// tokens, resource versions and outages.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/kubernetes/cluster.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace cluster_testing {

class FakeCluster {
 public:
  // Empty when no certificate could be made (no openssl on this machine).
  static std::unique_ptr<FakeCluster> start(const std::string& folder);
  ~FakeCluster();
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;

  // What a pod would find: its account's directory and the server.
  common::ClusterOptions options() const;
  const std::string& account() const { return account_; }
  int port() const { return port_; }

  // As another writer would.
  void put_lease(const std::string& name, const std::string& holder, int64_t duration_s);
  std::string holder(const std::string& lease) const;
  int64_t transitions(const std::string& lease) const;
  // How often anything was written.
  int64_t writes() const;
  std::string annotation(const std::string& pod, const std::string& name) const;
  void add_pod(const std::string& pod);
  // Every request is answered with this status; 0: as usual.
  void fail_with(int status);
  void replace_token(const std::string& token);

 private:
  explicit FakeCluster(std::string folder);
  bool listen();
  bool may(const httplib::Request& request, httplib::Response& response) const;
  void get_lease(const httplib::Request& request, httplib::Response& response);
  void make_lease(const httplib::Request& request, httplib::Response& response);
  void replace_lease(const httplib::Request& request, httplib::Response& response);
  void patch_pod(const httplib::Request& request, httplib::Response& response);

  const std::string folder_, account_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::string token_ = "token-1";
  int failure_ = 0;
  int64_t version_ = 1;
  std::map<std::string, std::string> leases_;  // JSON
  std::map<std::string, std::map<std::string, std::string>> pods_;
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace cluster_testing
