// What searches found, as the store keeps it: if these fail, later searches begin from nothing, or
// believe what is damaged.
#include <gtest/gtest.h>

#include "cache/store/store.h"
#include "common/base/files.h"
#include "common/ir/hlir/builder.h"
#include "coordinator/search/space/region_space.h"
#include "coordinator/service/plans/stored_tuning_records.h"

namespace coordinator::service {
namespace {

Genome genome() {
  Genome genome;
  genome.set({GeneKind::kChoice, 7, 0}, 12);
  genome.set({GeneKind::kStore, 9, 0}, -3);
  genome.set({GeneKind::kParameter, 100'000, 4}, INT64_MIN);
  return genome;
}

common::Program program() {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {8}, "x");
  b.output(b.unary(common::UnaryOp::kTanh, x));
  return plain_program_of(b.finish());
}

std::map<common::Digest, TuningRecord> all_kinds() {
  return {{common::digest_of("region"), {{40, 0}, 12.5, 300, 0, program(), {}}},
          {common::digest_of("kernel"), {{40, 0}, 2.5, 0, 6, {}, {}}},
          {common::digest_of("kin"), {{40, 2'000}, 12.5, 300, 0, {}, genome()}}};
}

TEST(TuningRecords, EveryKindComesBackFromTheStore) {
  common::ScratchDirectory folder =
      std::move(common::ScratchDirectory::create("tuning-records")).value();
  auto store = std::move(cache::Store::open(folder.path(), {})).value();
  ASSERT_TRUE(keep_tuning_records(*store, all_kinds(), 5, "red").ok());
  for (const auto& [key, record] : all_kinds()) {
    auto kept = load_tuning_record(*store, record.kind(), key, "blue");
    ASSERT_TRUE(kept.has_value());
    EXPECT_EQ(kept->when_wall_ns, 5);
    EXPECT_EQ(kept->record.effort, record.effort);
    EXPECT_EQ(kept->record.ns, record.ns);
    EXPECT_EQ(kept->record.schedule, record.schedule);
    EXPECT_EQ(kept->record.program, record.program);
    EXPECT_EQ(kept->record.genome.genes(), record.genome.genes());
    EXPECT_EQ(kept->record.genome.hash(), record.genome.hash());
  }
  EXPECT_FALSE(
      load_tuning_record(*store, TuningRecordKind::kRegion, common::digest_of("other"), "blue")
          .has_value());
  EXPECT_FALSE(
      load_tuning_record(*store, TuningRecordKind::kKernel, common::digest_of("region"), "blue")
          .has_value());
}

TEST(TuningRecords, AreForgottenWhenAPlanIsRevoked) {
  common::ScratchDirectory folder =
      std::move(common::ScratchDirectory::create("tuning-records")).value();
  cache::StoreOptions options;
  options.wall_ns = [] { return int64_t{100}; };
  auto store = std::move(cache::Store::open(folder.path(), options)).value();
  ASSERT_TRUE(keep_tuning_records(*store, all_kinds(), 90, "red").ok());
  ASSERT_TRUE(store->revoke(common::digest_of("plan"), "it is wrong").ok());
  for (const auto& [key, record] : all_kinds())
    EXPECT_FALSE(load_tuning_record(*store, record.kind(), key, "blue").has_value());
  // What is found from now on counts, though the earlier one was as fast.
  ASSERT_TRUE(keep_tuning_records(*store, all_kinds(), 101, "red").ok());
  for (const auto& [key, record] : all_kinds())
    EXPECT_TRUE(load_tuning_record(*store, record.kind(), key, "blue").has_value());
}

// One tenant's revocation is none of another one's business.
TEST(TuningRecords, ARevocationForgetsWhatItsTenantFoundAndUses) {
  common::ScratchDirectory folder =
      std::move(common::ScratchDirectory::create("tuning-records")).value();
  cache::StoreOptions options;
  options.wall_ns = [] { return int64_t{100}; };
  auto store = std::move(cache::Store::open(folder.path(), options)).value();
  auto one = *all_kinds().begin();
  auto found_by = [&](const std::string& tenant, int64_t when) {
    std::map<common::Digest, TuningRecord> found = {{one.first, one.second}};
    found.begin()->second.effort.candidates = when;  // more than before
    ASSERT_TRUE(keep_tuning_records(*store, found, when, tenant).ok());
  };
  auto has = [&](const std::string& tenant) {
    return load_tuning_record(*store, one.second.kind(), one.first, tenant).has_value();
  };
  found_by("red", 90);
  ASSERT_TRUE(store->revoke(common::digest_of("blue's plan"), "it is wrong", "blue").ok());
  EXPECT_FALSE(has("blue")) << "it may be what made the plan wrong";
  EXPECT_TRUE(has("red"));
  EXPECT_TRUE(has("green"));
  ASSERT_TRUE(store->revoke(common::digest_of("red's plan"), "it is wrong", "red").ok());
  EXPECT_FALSE(has("red"));
  EXPECT_FALSE(has("green")) << "it was the search whose plan was wrong that found it";
  found_by("green", 101);
  EXPECT_TRUE(has("red") && has("blue") && has("green"));
}

TEST(TuningRecords, ACutRecordIsNone) {
  for (const auto& [key, record] : all_kinds()) {
    std::string whole = encode_tuning_record({key, 5, record});
    ASSERT_TRUE(decode_tuning_record(whole).has_value());
    std::string bare = encode_tuning_record({key, 5, {record.effort, record.ns, 0, 0, {}, {}}});
    for (size_t size = 0; size < whole.size(); ++size) {
      // Without what follows its fields a record is that of a kernel.
      if (size == bare.size()) continue;
      EXPECT_FALSE(decode_tuning_record(whole.substr(0, size)).has_value()) << size;
    }
  }
  std::string kin =
      encode_tuning_record({common::digest_of("kin"), 5, {{}, 1, 0, 0, {}, genome()}});
  size_t count = kin.size() - genome().size() * 20 - 4;
  kin[count + 3] = '\x7f';  // more genes than there are bytes
  EXPECT_FALSE(decode_tuning_record(kin).has_value());
}

}  // namespace
}  // namespace coordinator::service
