// Keeps what a benchmark prints among the records of `lfarm report`, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/records/record.h"

namespace bench {

// The records that lines of a benchmark come to, one JSON object each; lines that measure no model
// and no search come to none. `device`: of this machine, where a line names none.
std::vector<common::Record> records_of(const std::string& command,
                                       const std::vector<std::string>& lines,
                                       const std::string& device);

// Runs a benchmark whose standard output goes where it went, and appends its records to `file`.
// Its exit code, or 1 when they cannot be kept.
int run_recorded(const std::string& command, const std::string& file,
                 const std::function<int()>& run);

// Takes --record FILE out of the arguments; empty when it is not among them.
std::string take_record_option(std::vector<std::string>* arguments);

}  // namespace bench
