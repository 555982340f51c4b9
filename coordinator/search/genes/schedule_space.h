// Schedules as numbers: a code counts through all values of all parameters of a template, so that a
// search can hold, compare and change thousands of schedules without a string.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/llir/llir.h"

namespace coordinator {

// 0 is the default of every parameter; codes are dense.
using ScheduleCode = uint32_t;

// How many there are for a kind of machine, whose other parameters keep their defaults, and the one
// with that number; number 0 is code 0.
ScheduleCode schedule_count(common::Template form, common::Machine machine);
ScheduleCode schedule_code(common::Template form, common::Machine machine, ScheduleCode number);
// The positions of the machine's parameters among the template's.
std::vector<size_t> schedule_parameters_on(common::Template form, common::Machine machine);
// Which of its values parameter k has, and the code in which it has another.
size_t schedule_digit(common::Template form, ScheduleCode code, size_t k);
ScheduleCode with_digit(common::Template form, ScheduleCode code, size_t k, size_t digit);
// As kernels hold it: sorted, without defaults.
common::Schedule schedule_of(common::Template form, ScheduleCode code);
// The schedule must be valid.
ScheduleCode code_of(common::Template form, const common::Schedule& schedule);

}  // namespace coordinator
