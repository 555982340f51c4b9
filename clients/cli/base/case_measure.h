// What a case's calls take and how far their outputs are from PyTorch's, for records.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/instance.h"
#include "common/base/result.h"
#include "common/records/record.h"

namespace clients {

// Of one set of inputs.
struct CaseMeasurement {
  std::string sizes;  // of the model's symbols: "s0=4"
  std::optional<int64_t> batch;
  std::string dtype;  // the model's least precise float
  common::Latency latency;
  std::optional<common::OutputErrors> error;  // empty: no output holds floats
};

// Takes in one output beside what it should be; what is no float, or no number in either, has no
// error. Sizes are equal.
void add_error(const common::HostTensor& actual, const common::HostTensor& expected,
               std::optional<common::OutputErrors>* error);

// The median and quartiles of values, of which there is at least one; they are reordered.
common::Latency latency_of(std::vector<int64_t>* values_ns);

// Calls a fresh instance until a quarter of a second has passed, three times at least, of which the
// first does not count.
common::Result<CaseMeasurement> measure_calls(const Model& model, Instance* instance,
                                              std::span<const common::HostTensor> inputs);

}  // namespace clients
