// Where an object store is that speaks the protocol of Amazon S3: addresses as people write them,
// taken apart and checked once.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/http/http_client.h"

namespace cache {

// An object store and who asks it, as options name them; none where `address` is empty.
struct S3Place {
  std::string address;   // "s3://BUCKET[/PREFIX]"
  std::string endpoint;  // "https://HOST[:PORT]" or "http://..."; empty: Amazon's
  std::string region;
  std::string ca_file;  // of who signs the endpoint's certificate; empty: whom the system trusts
  std::string credentials_file;  // see read_s3_credentials
};

struct S3Address {
  common::HttpEndpoint server;
  std::string host;    // as the header Host says it
  std::string path;    // of an object, up to its name
  std::string region;  // that requests are signed for
  std::string text;    // as it was written, which holds no secret
};

// Amazon's buckets have a host each; those of another endpoint are folders of it, as MinIO, Ceph
// and Garage have them. kInvalidInput says what is wrong.
common::Result<S3Address> parse_s3_address(const S3Place& place);

}  // namespace cache
