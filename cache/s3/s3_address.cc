#include "cache/s3/s3_address.h"

#include <algorithm>
#include <utility>

#include "cache/remote/host_port.h"
#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Result;

namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::string_view kLayout = "lfarm/1/object/";
constexpr size_t kBucketMin = 3, kBucketMax = 63;
constexpr size_t kPrefixMax = 512;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether the name needs no percent-encoding, so that the path that is sent is the one that is
// signed.
bool is_plain(std::string_view name, std::string_view others) {
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
  });
}

common::Error wrong(std::string_view what, std::string_view why) {
  return common::invalid_input(cat(what, ": ", why));
}

Result<common::HttpEndpoint> parse_endpoint(const std::string& text) {
  common::HttpEndpoint server;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    server.tls = true;
  } else if (!rest.starts_with("http://")) {
    return wrong(text, "an endpoint begins with https:// or http://");
  }
  rest.remove_prefix(rest.find("//") + 2);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  auto parsed = parse_host_port(rest);
  if (!parsed.ok()) return wrong(text, parsed.error().message);
  if (!is_plain(parsed->host, ".-:")) {
    return wrong(text, "an endpoint is https://HOST[:PORT], without a path");
  }
  server.host = std::move(parsed->host);
  server.port = parsed->port.value_or(server.tls ? 443 : 80);
  return server;
}

std::string host_of(const common::HttpEndpoint& server) {
  bool is_v6 = server.host.find(':') != std::string::npos;
  std::string host = is_v6 ? cat('[', server.host, ']') : server.host;
  bool is_usual = server.port == (server.tls ? 443 : 80);
  return is_usual ? host : cat(host, ':', server.port);
}

}  // namespace

Result<S3Address> parse_s3_address(const S3Place& place) {
  const std::string& text = place.address;
  if (!text.starts_with(kScheme)) return wrong(text, "an object store is s3://BUCKET[/PREFIX]");
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  std::string bucket(rest.substr(0, rest.find('/')));
  std::string prefix(rest.size() > bucket.size() ? rest.substr(bucket.size() + 1) : "");
  if (bucket.size() < kBucketMin || bucket.size() > kBucketMax || !is_plain(bucket, ".-_")) {
    return wrong(text, "a bucket's name has 3 to 63 letters, digits, dots and hyphens");
  }
  while (prefix.ends_with('/')) prefix.pop_back();
  bool is_clean = is_plain(prefix, "._-/") && prefix.find("//") == std::string::npos &&
                  !prefix.starts_with('/') && prefix.find("..") == std::string::npos;
  if (prefix.size() > kPrefixMax || !is_clean) {
    return wrong(text, "a prefix has letters, digits and the characters . _ - between slashes");
  }
  if (!prefix.empty()) prefix += '/';

  S3Address address;
  address.text = text;
  address.region = place.region.empty() ? "us-east-1" : place.region;
  if (!is_plain(address.region, "-_")) return wrong(address.region, "is no region's name");
  if (place.endpoint.empty()) {
    address.server = {cat(bucket, ".s3.", address.region, ".amazonaws.com"), 443, true, ""};
    address.path = cat('/', prefix, kLayout);
  } else {
    LFARM_ASSIGN_OR_RETURN(address.server, parse_endpoint(place.endpoint));
    address.path = cat('/', bucket, '/', prefix, kLayout);
    address.text += cat(" at ", place.endpoint);
  }
  address.server.ca_file = place.ca_file;
  address.host = host_of(address.server);
  return address;
}

}  // namespace cache
