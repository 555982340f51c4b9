// 100,000 single-bit flips over everything a farm hands out: signed plans, revocation lists,
// objects on the wire, blobs and plans in the store. Each must be refused; one that is not would
// run.
#include <gtest/gtest.h>

#include <set>

#include "cache/store/database.h"
#include "cache/store/records.h"
#include "cache/store/store.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "common/wire/socket.h"
#include "sealed_plan.h"

namespace {

using common::Bytes;
using common::Digest;
using common::Random;

constexpr size_t kPlanFlips = 34'500;
constexpr size_t kListFlips = 5'000;
constexpr size_t kObjectFlips = 30'000;
constexpr size_t kStoredBlobFlips = 30'000;
constexpr size_t kStoredPlanFlips = 500;
static_assert(kPlanFlips + kListFlips + kObjectFlips + kStoredBlobFlips + kStoredPlanFlips ==
              100'000);

void flip(Bytes& bytes, size_t bit) { bytes[bit / 8] ^= std::byte{1} << (bit % 8); }

Bytes noise(Random& random, size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// Every bit where `count` allows it, else a sample without repetition.
std::set<size_t> sample(Random& random, size_t bits, size_t count) {
  std::set<size_t> chosen;
  if (count >= bits) {
    for (size_t bit = 0; bit < bits; ++bit) chosen.insert(bit);
  }
  while (chosen.size() < std::min(count, bits)) chosen.insert(random.below(bits));
  return chosen;
}

TEST(BitFlips, SealedPlans) {
  Random random(1);
  auto key = common::make_signing_key();
  clients::PlanTrust trust{key.public_key(), "team-a", {}};
  size_t flipped = 0;
  for (int kernels : {16, 32, 64}) {
    common::Plan plan = common::chain_plan(kernels);
    Bytes blob = common::encode_sealed(common::seal(key, "team-a", plan));
    ASSERT_TRUE(clients::open_signed_plan(blob, trust, plan.key).ok());
    for (size_t bit : sample(random, blob.size() * 8, kPlanFlips / 3)) {
      flip(blob, bit);
      auto opened = clients::open_signed_plan(blob, trust, plan.key);
      EXPECT_FALSE(opened.ok()) << kernels << " kernels, bit " << bit << " of " << blob.size() * 8;
      flip(blob, bit);
      ++flipped;
    }
  }
  EXPECT_EQ(flipped, kPlanFlips);
}

TEST(BitFlips, RevocationLists) {
  Random random(2);
  auto key = common::make_signing_key();
  common::RevocationList list;
  for (int k = 0; k < 40; ++k) list.plans.push_back(common::digest_of(common::cat(k)));
  Bytes blob =
      common::encode_sealed(common::sign_revocations(key, common::encode_revocations(list)));
  auto is_taken = [&] {
    auto outer = common::decode_sealed(blob);
    return outer.ok() && common::check_revocations(*outer, key.public_key()).ok();
  };
  ASSERT_TRUE(is_taken());
  size_t flipped = 0;
  for (size_t bit : sample(random, blob.size() * 8, kListFlips)) {
    flip(blob, bit);
    EXPECT_FALSE(is_taken()) << "bit " << bit;
    flip(blob, bit);
    ++flipped;
  }
  EXPECT_EQ(flipped, kListFlips);
}

TEST(BitFlips, ObjectsOnTheWire) {
  Random random(3);
  common::WireContext context;
  auto router = common::RouterSocket::bind(context, {"inproc://flips", {}, {}, {}});
  ASSERT_TRUE(router.ok());
  auto dealer = common::DealerSocket::connect(context, {"inproc://flips", {}, {}});
  ASSERT_TRUE(dealer.ok());
  Bytes object = noise(random, 6'000);
  common::Blob message{common::digest_of(object)};
  std::vector<size_t> waiting;
  size_t refused = 0;
  std::vector<common::Arrival> arrivals;
  auto take = [&] {
    arrivals.clear();
    router->receive(arrivals, 1'000);
    for (const common::Arrival& arrival : arrivals) {
      ASSERT_LT(refused, kObjectFlips);
      ASSERT_FALSE(arrival.packet.ok()) << "flip " << refused;
      EXPECT_EQ(arrival.packet.error().code, common::Code::kCorrupt);
      ++refused;
    }
  };
  for (size_t bit : sample(random, object.size() * 8, kObjectFlips)) {
    Bytes damaged = object;
    flip(damaged, bit);
    common::SharedBytes bytes = common::share(std::move(damaged));
    while (dealer->send(message, bytes) != common::SendOutcome::kSent) take();
  }
  common::Poller poller;
  poller.watch(*router);
  while (refused < kObjectFlips) {
    ASSERT_GT(poller.wait(600'000).value(), 0u) << refused << " of " << kObjectFlips;
    take();
  }
  // What is whole still arrives.
  ASSERT_EQ(dealer->send(message, common::share(object)), common::SendOutcome::kSent);
  ASSERT_GT(poller.wait(600'000).value(), 0u);
  arrivals.clear();
  router->receive(arrivals, 10);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_TRUE(arrivals[0].packet.ok());
}

// Flips behind the store's back, past the checksums of its files, as a foreign writer would.
class StoredBitFlips : public testing::Test {
 protected:
  StoredBitFlips() : scratch_(common::ScratchDirectory::create("bit_flips").value()) { open(); }
  void open() { store_ = cache::Store::open(scratch_.path()).value(); }
  // Changes entries of the closed store, then opens it again.
  template <class Change>
  void behind_its_back(const Change& change) {
    store_.reset();
    {
      auto database = cache::Database::open(scratch_.path(), {}).value();
      cache::Batch batch;
      change(*database, batch);
      ASSERT_TRUE(database->write(batch, true).ok());
    }
    open();
  }

  common::ScratchDirectory scratch_;
  std::unique_ptr<cache::Store> store_;
};

TEST_F(StoredBitFlips, Blobs) {
  Random random(4);
  std::vector<Digest> blobs;
  for (size_t k = 0; k < kStoredBlobFlips; ++k) {
    Bytes bytes = noise(random, 16 + random.below(200));
    blobs.push_back(store_->put_blob(common::as_text(bytes)).value());
  }
  ASSERT_TRUE(store_->get_blob(blobs[0]).value().has_value());
  behind_its_back([&](cache::Database& database, cache::Batch& batch) {
    for (const Digest& blob : blobs) {
      auto stored = database.get(cache::Family::kKernels, cache::key_of(blob)).value();
      ASSERT_TRUE(stored.has_value());
      Bytes bytes = common::to_bytes(common::as_bytes(*stored));
      flip(bytes, random.below(bytes.size() * 8));
      batch.put(cache::Family::kKernels, cache::key_of(blob), common::as_text(bytes));
    }
  });
  for (const Digest& blob : blobs) {
    auto read = store_->get_blob(blob);
    ASSERT_FALSE(read.ok()) << blob.hex();
    EXPECT_EQ(read.error().code, common::Code::kCorrupt);
  }
}

TEST_F(StoredBitFlips, Plans) {
  Random random(5);
  auto key = common::make_signing_key();
  clients::PlanTrust trust{key.public_key(), "local", {}};
  common::Plan plan = common::chain_plan(2);
  Bytes blob = common::encode_sealed(common::seal(key, "local", plan));
  std::vector<Digest> places;
  for (size_t k = 0; k < kStoredPlanFlips; ++k) {
    cache::NewPlan kept;
    kept.facts.key = common::digest_of(common::cat("place", k));
    kept.facts.graph_hash = plan.key.graph_hash;
    kept.facts.plan_id = common::digest_of(blob);
    kept.bytes = common::as_text(blob);
    ASSERT_TRUE(store_->put_plan(kept).ok());
    places.push_back(kept.facts.key);
  }
  auto is_served = [&](const Digest& place) {
    auto bundle = store_->get_bundle(place);
    if (!bundle.ok() || !bundle->has_value()) return false;
    return clients::open_signed_plan(common::as_bytes((*bundle)->plan.bytes), trust, plan.key).ok();
  };
  ASSERT_TRUE(is_served(places[0]));
  behind_its_back([&](cache::Database& database, cache::Batch& batch) {
    for (const Digest& place : places) {
      std::string record = *database.get(cache::Family::kPlans, cache::plan_key(place)).value();
      Bytes bytes = common::to_bytes(common::as_bytes(record));
      // The header before the plan's own bytes says nothing that is executed.
      size_t plan_at = bytes.size() - blob.size();
      flip(bytes, plan_at * 8 + random.below(blob.size() * 8));
      batch.put(cache::Family::kPlans, cache::plan_key(place), common::as_text(bytes));
    }
  });
  for (const Digest& place : places) EXPECT_FALSE(is_served(place)) << place.hex();
}

}  // namespace
