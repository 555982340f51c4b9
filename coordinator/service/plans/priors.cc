#include "coordinator/service/plans/priors.h"

#include <cmath>

#include "cache/store/records.h"
#include "common/base/cat.h"

namespace coordinator::service {
namespace {

std::string name_of(const std::string& device) { return common::cat(kPriorsPrefix, device); }

}  // namespace

std::string encode_effects(const EffectTable& table) {
  std::string bytes;
  for (const auto& [feature, effect] : table) {
    cache::append_u64(bytes, feature);
    cache::append_f64(bytes, effect.mean);
    cache::append_f64(bytes, effect.count);
  }
  return bytes;
}

EffectTable decode_effects(std::string_view bytes) {
  EffectTable table;
  cache::FieldReader reader(bytes);
  while (reader.ok() && !reader.done()) {
    Feature feature = reader.u64();
    Effect effect;
    effect.mean = reader.f64();
    effect.count = reader.f64();
    bool is_sound = reader.ok() && std::isfinite(effect.mean) && std::isfinite(effect.count) &&
                    effect.count > 0;
    if (!is_sound) return {};
    table[feature] = effect;
  }
  return table;
}

EffectTable load_priors(cache::Store& store, const std::string& device) {
  auto bytes = store.get_named(name_of(device));
  if (!bytes.ok() || !bytes->has_value()) return {};
  return decode_effects(**bytes);
}

common::Status merge_priors(cache::Store& store, const std::string& device,
                            const EffectTable& learned) {
  if (learned.empty()) return {};
  EffectTable table = load_priors(store, device);
  merge_effects(table, learned);
  return store.put_named(name_of(device), encode_effects(table));
}

}  // namespace coordinator::service
