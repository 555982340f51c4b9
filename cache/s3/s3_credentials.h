// Who a farm is to an object store, given as Amazon's tools take it.
#pragma once

#include <string>

#include "common/base/result.h"

namespace cache {

struct S3Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: the keys are nobody's for a time
};

// The section [default] of a file as ~/.aws/credentials is, which only its owner may read; or,
// where `file` is empty, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the
// environment. kInvalidInput says what is missing.
common::Result<S3Credentials> read_s3_credentials(const std::string& file);

}  // namespace cache
