// What Amazon's tools take from files and from the environment.
#pragma once

#include <string>

#include "cache/s3/s3_address.h"
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

// What `place` leaves open of endpoint and region is what AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
// and AWS_REGION or AWS_DEFAULT_REGION, say.
S3Place with_environment(S3Place place);

}  // namespace cache
