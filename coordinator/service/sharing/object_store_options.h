// The options that name an object store, of every command that takes --remote.
#pragma once

#include <CLI/App.hpp>

#include "cache/s3/s3_address.h"

namespace coordinator::service {

void declare_object_store(CLI::App& app, cache::S3Place& objects);

}  // namespace coordinator::service
