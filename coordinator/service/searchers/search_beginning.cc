#include "coordinator/service/searchers/search_beginning.h"

#include <exception>
#include <utility>

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/steps_inside.h"

namespace coordinator::service {

using common::Result;

namespace {

Result<std::shared_ptr<SearchSteps>> begin(const SearchBeginning& beginning,
                                           const MeasurementSource* source) {
  try {
    LFARM_ASSIGN_OR_RETURN(common::Graph graph, common::decode_graph(beginning.graph.bytes));
    LFARM_ASSIGN_OR_RETURN(
        std::unique_ptr<JobSearch> search,
        beginning.create(graph, search_options(beginning.request, beginning.start), source));
    const common::Target& target = beginning.request.key.target;
    return std::shared_ptr<SearchSteps>(std::make_shared<StepsInside>(
        std::move(search),
        common::NestMachine(common::machine_of(target), target.name, beginning.start.machine),
        beginning.measurements, StepsInside::Known{beginning.results, beginning.finish_after}));
  } catch (const std::exception& exception) {
    return common::internal_error(common::cat("cannot search this graph: ", exception.what()));
  }
}

}  // namespace

Result<std::shared_ptr<SearchSteps>> begin_inside(const SearchBeginning& beginning) {
  return begin(beginning, beginning.measurements.get());
}

Result<std::shared_ptr<SearchSteps>> begin_inside(const SearchBeginning& beginning,
                                                  const MeasurementSource& source) {
  return begin(beginning, &source);
}

}  // namespace coordinator::service
