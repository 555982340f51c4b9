#include "coordinator/service/sharing/object_store_options.h"

#include <CLI/Validators.hpp>

namespace coordinator::service {

void declare_object_store(CLI::App& app, cache::S3Place& objects) {
  CLI::Option* store = app.add_option(
      "--objects", objects.address,
      "s3://BUCKET[/PREFIX]: kernels of shared plans lie in this object store, and --remote keeps "
      "the plans");
  app.add_option("--objects-endpoint", objects.endpoint,
                 "https://HOST[:PORT] of another object store than Amazon's "
                 "(default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL)")
      ->needs(store);
  app.add_option("--objects-region", objects.region,
                 "(default: AWS_REGION or AWS_DEFAULT_REGION, else us-east-1)")
      ->needs(store);
  app.add_option("--objects-credentials", objects.credentials_file,
                 "file with its keys as ~/.aws/credentials has them, which only its owner may read "
                 "(default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)")
      ->needs(store);
  app.add_option("--objects-ca", objects.ca_file,
                 "PEM file of who signs the endpoint's certificate (default: the system's)")
      ->needs(store)
      ->check(CLI::ExistingFile);
}

}  // namespace coordinator::service
