// The options that name an object store, of every command that takes --remote.
#pragma once

#include <CLI/App.hpp>

#include "coordinator/service/loop/options.h"

namespace coordinator::service {

void declare_object_store(CLI::App& app, ObjectStoreOptions& objects);

}  // namespace coordinator::service
