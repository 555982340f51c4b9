// What the store still knows of how a plan was made: the program that its code was printed from,
// and which parts of the model its kernels come from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/kernel_origins.h"
#include "common/plan/plan.h"

namespace coordinator::service {

struct PlanMaking {
  common::Program program;                    // with as many kernels as the plan, in its order
  std::vector<common::KernelOrigin> origins;  // by kernel
};

// Of the plan's recipe; empty where it has none, or another program's, as plans of other farms do.
std::optional<PlanMaking> making_of(cache::Store& store, const cache::StoredPlan& stored,
                                    const common::Plan& plan);

// What people see of a kernel beside its schedule: "tile 1f3a9c20b1d4". Kernels that differ in
// their schedules alone have one name.
std::string kernel_name(common::Template form, const common::Digest& body);

// The origins of the kernels of the tenant's latest plan of that graph, target and policy, by
// kernel_name(). `graph`: the hash in hexadecimal. Empty where there is no such plan or no making.
// Reads the store's list of plans: not for the event loop.
std::map<std::string, common::KernelOrigin> origins_by_name(cache::Store& store,
                                                            const std::string& tenant,
                                                            const std::string& graph,
                                                            const std::string& target,
                                                            const std::string& policy);

}  // namespace coordinator::service
