// Several instances of a model, or of two programs of it, with one state: keys and values of
// earlier tokens go to whichever computes the next call.
#pragma once

#include <memory>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/plan_instance.h"
#include "common/base/result.h"

namespace clients {

// Not thread-safe.
class SharedState {
 public:
  // Instances of one `family` are plans of one model for other sizes. States of two families are
  // matched by name, type and sizes; those without a match stay. Nothing is copied, so all
  // instances are of one device. Returns the instance's number.
  size_t add(std::unique_ptr<PlanInstance> instance, std::shared_ptr<const Model> model,
             size_t family);
  // The instance, with the state as the last one that was asked for left it.
  common::Result<PlanInstance*> use(size_t number);
  // PlanInstance::finish_keeping() of all.
  void finish_keeping();

 private:
  struct Entry {
    std::unique_ptr<PlanInstance> instance;
    std::shared_ptr<const Model> model;
    size_t family = 0;
  };
  common::Status move(Entry& from, Entry& to);
  std::vector<Entry> entries_;
  size_t holder_ = 0;
};

}  // namespace clients
