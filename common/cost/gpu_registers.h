// How many registers a thread of a GPU's kernel is expected to take, which decides how many blocks
// share a multiprocessor.
#pragma once

namespace common {

// What a thread holds at once.
struct ThreadValues {
  bool ahead = false;  // a step's loads begin while the step before is computed
  double loaded_bytes = 0, kept_bytes = 0;  // loads under way together; rows that stay
  double sums = 0;                          // of rows, one for each reduction
};

// An estimate fitted to what NVRTC 13.0 makes for sm_90a of projections of one row behind a norm:
// within 6 % but for four rows that are loaded ahead. A product of one row alone takes half more.
double expected_registers(const ThreadValues& values);

}  // namespace common
