#include "common/wire/bundle/plan_bundle.h"

#include <algorithm>

#include "common/wire/ir_pieces.h"
#include "schemas/plan.capnp.h"

namespace common {

namespace wire = schemas::plan;

namespace {

// A plan and objects of which each may be as large as a blob.
constexpr size_t kBundleBytesMax = 4 * kBlobBytesMax;

ByteView view_of(capnp::Data::Reader in) {
  return {reinterpret_cast<const std::byte*>(in.begin()), in.size()};
}

}  // namespace

Bytes encode_bundle(const PlanBundle& bundle) {
  size_t bytes = bundle.signed_plan.size();
  for (ByteView object : bundle.objects) bytes += object.size() + sizeof(capnp::word);
  capnp::MallocMessageBuilder builder(list_size(bytes / sizeof(capnp::word) + 64));
  auto root = builder.initRoot<wire::PlanBundle>();
  root.setSignedPlan(kj_data(bundle.signed_plan));
  root.setStamp(kj_data(bundle.stamp));
  auto objects = root.initObjects(list_size(bundle.objects.size()));
  for (size_t i = 0; i < bundle.objects.size(); ++i) {
    objects.set(list_size(i), kj_data(bundle.objects[i]));
  }
  return flatten(builder);
}

Result<PlanBundle> decode_bundle(ByteView bytes) {
  LFARM_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(capnp::word) == 0,
              "a bundle's parts would be views of a copy");
  return decode_flat<PlanBundle, wire::PlanBundle>(
      bytes, "plan bundle", kBundleBytesMax, kNestingMax,
      [](wire::PlanBundle::Reader in) -> Result<PlanBundle> {
        PlanBundle bundle{view_of(in.getSignedPlan()), {}, view_of(in.getStamp())};
        check_count(in.getObjects(), kDigestsMax, "objects");
        for (capnp::Data::Reader object : in.getObjects()) {
          bundle.objects.push_back(view_of(object));
        }
        return bundle;
      });
}

}  // namespace common
