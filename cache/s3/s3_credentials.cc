#include "cache/s3/s3_credentials.h"

#include <cstdlib>
#include <map>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/secret_file.h"

namespace cache {

using common::cat;
using common::Result;

namespace {

constexpr size_t kFileBytesMax = size_t{64} << 10;

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The names and values of one section. Lines that begin with '#' or ';' are comments.
std::map<std::string, std::string> section_of(const std::string& file, const std::string& name) {
  std::map<std::string, std::string> values;
  std::istringstream lines(file);
  bool is_in = false;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      is_in = line == cat('[', name, ']');
      continue;
    }
    size_t equals = line.find('=');
    if (is_in && equals != std::string::npos) {
      values[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
    }
  }
  return values;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<S3Credentials> read_s3_credentials(const std::string& file) {
  if (file.empty()) {
    S3Credentials found{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                        environment("AWS_SESSION_TOKEN")};
    if (!found.access_key.empty() && !found.secret_key.empty()) return found;
    return common::invalid_input(
        "an object store needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a "
        "file with --objects-credentials");
  }
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_secret_file(file, kFileBytesMax));
  auto values = section_of(text, "default");
  S3Credentials found{values["aws_access_key_id"], values["aws_secret_access_key"],
                      values["aws_session_token"]};
  if (!found.access_key.empty() && !found.secret_key.empty()) return found;
  return common::invalid_input(
      cat(file, " has no aws_access_key_id and aws_secret_access_key in its section [default]"));
}

S3Place with_environment(S3Place place) {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (place.endpoint.empty()) place.endpoint = environment(name);
  }
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (place.region.empty()) place.region = environment(name);
  }
  return place;
}

}  // namespace cache
