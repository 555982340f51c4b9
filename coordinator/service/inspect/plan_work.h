// `lfarm-coordinator work`: what each call of a plan computes, counted from the program that the
// plan was made of, for `lfarm plan score`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/store/store.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/ir/llir/llir.h"

namespace coordinator::service {

struct CallWork {
  common::Digest kernel;       // fingerprint
  std::string_view operation;  // "matmul", "softmax", ...: what the kernel is mostly about
  double operations = 0;       // additions and multiplications, comparisons, functions
  bool is_half = false;        // it multiplies 16-bit numbers
};

// Of the program's calls in order; sizes[k] is the value of its s<k>.
std::vector<CallWork> work_of(const common::Program& program, const std::vector<int64_t>& sizes);

// The program that the plan with this id was made of. kInvalidInput when the store has no such
// plan, or not what it was made of (a plan that came from elsewhere).
common::Result<common::Program> program_of_plan(cache::Store& store, const common::Digest& plan);

// `work --state DIR --sizes N,N PLAN`: one JSON object a call. Exit code 0, or fail()'s with one
// line on standard error.
int run_work(int argc, const char* const* argv);

}  // namespace coordinator::service
