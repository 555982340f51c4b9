#include "coordinator/service/plans/recipe.h"

#include <string_view>

#include "cache/store/records.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

namespace {
constexpr std::string_view kHead = "lfarm recipe 1\n";
}  // namespace

bool is_recipe(common::ByteView blob) { return common::as_text(blob).starts_with(kHead); }

std::string encode_recipe(const Recipe& recipe) {
  std::string out(kHead);
  cache::append_u64(out, recipe.payload.size());
  out += common::as_text(recipe.payload);
  out += common::as_text(recipe.graph);
  return out;
}

common::Result<Recipe> decode_recipe(common::ByteView blob) {
  if (!is_recipe(blob)) return common::corrupt("a plan's recipe is none");
  cache::FieldReader reader(common::as_text(blob).substr(kHead.size()));
  uint64_t bytes = reader.u64();
  if (!reader.ok() || bytes > reader.rest().size()) {
    return common::corrupt("a plan's recipe is cut off");
  }
  Recipe recipe;
  recipe.payload = common::to_bytes(common::as_bytes(reader.take(bytes)));
  recipe.graph = common::to_bytes(common::as_bytes(reader.rest()));
  LFARM_ASSIGN_OR_RETURN(common::TaskPayload payload, common::decode_task_payload(recipe.payload));
  if (payload.graph == common::digest_of(recipe.graph)) return recipe;
  return common::corrupt("a plan's recipe holds another graph than its program's");
}

}  // namespace coordinator::service
