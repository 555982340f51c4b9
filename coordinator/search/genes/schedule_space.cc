#include "coordinator/search/genes/schedule_space.h"

#include <algorithm>

namespace coordinator {

using common::schedule_parameters;
using common::ScheduleChoice;
using common::Template;

std::vector<size_t> schedule_parameters_on(Template form, common::Machine machine) {
  std::vector<size_t> positions;
  const auto& choices = schedule_parameters(form);
  for (size_t k = 0; k < choices.size(); ++k) {
    if (choices[k].is_on(machine)) positions.push_back(k);
  }
  return positions;
}

ScheduleCode schedule_count(Template form, common::Machine machine) {
  ScheduleCode count = 1;
  for (size_t k : schedule_parameters_on(form, machine)) {
    count *= static_cast<ScheduleCode>(schedule_parameters(form)[k].values.size());
  }
  return count;
}

ScheduleCode schedule_code(Template form, common::Machine machine, ScheduleCode number) {
  ScheduleCode code = 0;
  for (size_t k : schedule_parameters_on(form, machine)) {
    auto values = static_cast<ScheduleCode>(schedule_parameters(form)[k].values.size());
    code = with_digit(form, code, k, number % values);
    number /= values;
  }
  return code;
}

size_t schedule_digit(Template form, ScheduleCode code, size_t k) {
  const auto& choices = schedule_parameters(form);
  for (size_t j = 0; j < k; ++j) code /= static_cast<ScheduleCode>(choices[j].values.size());
  return code % choices[k].values.size();
}

ScheduleCode with_digit(Template form, ScheduleCode code, size_t k, size_t digit) {
  const auto& choices = schedule_parameters(form);
  ScheduleCode unit = 1;
  for (size_t j = 0; j < k; ++j) unit *= static_cast<ScheduleCode>(choices[j].values.size());
  size_t old = code / unit % choices[k].values.size();
  return code - static_cast<ScheduleCode>(old) * unit + static_cast<ScheduleCode>(digit) * unit;
}

common::Schedule schedule_of(Template form, ScheduleCode code) {
  common::Schedule schedule;
  for (const ScheduleChoice& choice : schedule_parameters(form)) {
    size_t digit = code % choice.values.size();
    code /= static_cast<ScheduleCode>(choice.values.size());
    if (digit != 0) schedule.push_back({std::string(choice.name), choice.values[digit]});
  }
  std::sort(schedule.begin(), schedule.end());
  return schedule;
}

ScheduleCode code_of(Template form, const common::Schedule& schedule) {
  ScheduleCode code = 0;
  ScheduleCode unit = 1;
  for (const ScheduleChoice& choice : schedule_parameters(form)) {
    int64_t value = common::schedule_value(schedule, form, choice.name);
    auto it = std::find(choice.values.begin(), choice.values.end(), value);
    LFARM_CHECK(it != choice.values.end(), "a schedule holds a value that its template lacks");
    code += unit * static_cast<ScheduleCode>(it - choice.values.begin());
    unit *= static_cast<ScheduleCode>(choice.values.size());
  }
  return code;
}

}  // namespace coordinator
