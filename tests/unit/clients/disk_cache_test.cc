// Clients' plans on disk: if these fail, programs load what no farm signed, or fetch it twice.
#include "clients/runtime/farm/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "clients/runtime/farm/met_farms.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/wire/bundle/plan_bundle.h"
#include "sealed_plan.h"

namespace clients {
namespace {

using common::cat;
using common::Code;

common::SharedBytes shared(const std::string& text) {
  return common::share(common::to_bytes(common::as_bytes(text)));
}

class DiskCacheTest : public testing::Test {
 protected:
  // Warnings of damage are what is asked for here.
  DiskCacheTest() : scratch_(common::ScratchDirectory::create("lfarm-disk").value()) {
    common::log_init("test", common::LogLevel::kOff);
  }

  std::string directory() const { return scratch_.path() + "/plans"; }
  // A plan for the graph of this name, whose first object takes that many bytes more.
  PulledPlan plan(const std::string& graph = "graph", size_t bytes = 0) const {
    PulledPlan out;
    out.plan = common::chain_plan(2);
    out.plan.key.graph_hash = common::digest_of(graph);
    out.plan.provenance.machine = "AMD EPYC 7763, 2 threads";
    std::vector<std::string> objects = {"object" + std::string(bytes, '.'), "another"};
    for (size_t k = 0; k < objects.size(); ++k) {
      out.plan.objects[k] = common::digest_of(objects[k]);
      out.objects.emplace(out.plan.objects[k], shared(objects[k]));
    }
    out.signed_plan =
        common::share(common::encode_sealed(common::seal(key_, trust_.tenant, out.plan)));
    out.id = common::digest_of(out.signed_plan.bytes);
    return out;
  }
  std::vector<std::string> files(const std::string& extension = ".plan") const {
    std::vector<std::string> found;
    if (!std::filesystem::exists(directory())) return found;
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      if (entry.path().extension() == extension) found.push_back(entry.path().string());
    }
    return found;
  }

  common::ScratchDirectory scratch_;
  common::SigningKey key_ = common::make_signing_key();
  PlanTrust trust_{key_.public_key(), "team-a", {}};
};

TEST_F(DiskCacheTest, APlanComesBackWhole) {
  PulledPlan given = plan();
  EXPECT_FALSE(DiskCache(directory()).find(given.plan.key, trust_).value());
  EXPECT_TRUE(files().empty());
  ASSERT_TRUE(DiskCache(directory()).put(given, trust_).ok());
  auto found = DiskCache(directory()).find(given.plan.key, trust_);
  ASSERT_TRUE(found.ok() && *found) << found.error().message;
  EXPECT_EQ((*found)->plan, given.plan);
  EXPECT_EQ((*found)->id, given.id);
  for (const auto& [digest, bytes] : given.objects) {
    auto object = (*found)->object_source()(digest);
    ASSERT_TRUE(object.ok());
    EXPECT_EQ(common::as_text(*object), common::as_text(bytes.bytes));
  }
  EXPECT_EQ((*found)->facts.cache, common::CacheOutcome::kHit);
}

TEST_F(DiskCacheTest, FarmsAndTenantsDoNotMeet) {
  PulledPlan given = plan();
  DiskCache cache(directory());
  ASSERT_TRUE(cache.put(given, trust_).ok());
  PlanTrust other_tenant = trust_, other_farm = trust_;
  other_tenant.tenant = "team-b";
  other_farm.signer = common::make_signing_key().public_key();
  EXPECT_FALSE(cache.find(given.plan.key, other_tenant).value());
  EXPECT_FALSE(cache.find(given.plan.key, other_farm).value());
  // Nor where somebody copies the file to the place where theirs would be.
  std::string mine = files()[0];
  ASSERT_TRUE(cache.put(given, other_tenant).ok());
  for (const std::string& file : files()) {
    if (file != mine)
      std::filesystem::copy(mine, file, std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.find(given.plan.key, other_tenant).error().code, Code::kVerification);
  EXPECT_TRUE(cache.find(given.plan.key, trust_).value());
}

TEST_F(DiskCacheTest, MachineClassesDoNotMeet) {
  PulledPlan given = plan();
  std::string own = given.plan.provenance.machine;
  ASSERT_FALSE(own.empty());
  DiskCache cache(directory());
  ASSERT_TRUE(cache.put(given, trust_, own).ok());
  EXPECT_FALSE(cache.find(given.plan.key, trust_, "another class").value());
  EXPECT_FALSE(cache.find(given.plan.key, trust_).value());
  auto found = cache.find(given.plan.key, trust_, own).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->facts.standing, common::Standing::kFinal);
  // Given to another class for now, it is known there as a neighbour's.
  ASSERT_TRUE(cache.put(given, trust_, "another class").ok());
  found = cache.find(given.plan.key, trust_, "another class").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->facts.standing, common::Standing::kNeighbour);
  cache.forget(given.plan.key, trust_, "another class");
  EXPECT_FALSE(cache.find(given.plan.key, trust_, "another class").value());
  EXPECT_TRUE(cache.find(given.plan.key, trust_, own).value());
}

TEST_F(DiskCacheTest, EveryDamagedByteMakesItNoPlan) {
  PulledPlan given = plan();
  DiskCache cache(directory());
  ASSERT_TRUE(cache.put(given, trust_).ok());
  std::string file = files()[0];
  std::string whole = common::read_file(file).value();
  size_t refused = 0, harmless = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    std::ofstream(file, std::ios::binary) << damaged;
    auto found = cache.find(given.plan.key, trust_);
    bool is_none = !found.ok() || !*found;
    if (is_none) {
      EXPECT_TRUE(files().empty()) << at;
      ++refused;
    } else {
      // Padding between the parts is nobody's.
      EXPECT_EQ((*found)->plan, given.plan);
      EXPECT_EQ((*found)->objects.size(), given.objects.size());
      ++harmless;
    }
  }
  EXPECT_GT(refused, given.signed_plan.bytes.size());
  EXPECT_LT(harmless, 64u);
}

// A stamp stands for the signature's check, so that nobody but the directory's owner may make one.
TEST_F(DiskCacheTest, OnlyTheOwnersStampIsBelieved) {
  PulledPlan given = plan();
  // Somebody who is no farm signs a plan as the farm's and puts it in place with a stamp.
  PulledPlan forged = given;
  forged.signed_plan = common::share(
      common::encode_sealed(common::seal(common::make_signing_key(), trust_.tenant, given.plan)));
  ASSERT_TRUE(DiskCache(directory()).put(given, trust_).ok());
  std::string honest = common::read_file(files()[0]).value();
  ASSERT_TRUE(DiskCache(directory()).put(forged, trust_).ok());
  EXPECT_EQ(DiskCache(directory()).find(given.plan.key, trust_).error().code, Code::kVerification);
  auto bundle = common::decode_bundle(common::as_bytes(honest)).value();
  common::Bytes stamp = common::to_bytes(bundle.stamp);
  ASSERT_EQ(stamp.size(), sizeof(common::Digest));
  bundle.signed_plan = forged.signed_plan.bytes;
  common::Bytes moved = common::encode_bundle(bundle);
  ASSERT_TRUE(DiskCache(directory()).put(given, trust_).ok());
  ASSERT_TRUE(common::write_file_atomic(files()[0], moved).ok());
  EXPECT_EQ(DiskCache(directory()).find(given.plan.key, trust_).error().code, Code::kVerification);
  // Nor does a stamp hold for a farm that is trusted no more.
  ASSERT_TRUE(DiskCache(directory()).put(given, trust_).ok());
  PlanTrust other = trust_;
  other.signer = common::make_signing_key().public_key();
  std::string mine = files()[0];
  ASSERT_TRUE(DiskCache(directory()).put(given, other).ok());
  for (const std::string& file : files()) {
    if (file != mine) {
      std::filesystem::copy(mine, file, std::filesystem::copy_options::overwrite_existing);
    }
  }
  EXPECT_EQ(DiskCache(directory()).find(given.plan.key, other).error().code, Code::kVerification);
  // Without its secret a cache checks signatures, as it does a plan of another machine's.
  ASSERT_TRUE(std::filesystem::remove(directory() + "/stamp.key"));
  EXPECT_TRUE(DiskCache(directory()).find(given.plan.key, trust_).value());
}

TEST_F(DiskCacheTest, CutFilesAreRemovedAndReplaced) {
  PulledPlan given = plan();
  DiskCache cache(directory());
  for (size_t keep : {0, 1, 8, 64, 500}) {
    ASSERT_TRUE(cache.put(given, trust_).ok());
    std::filesystem::resize_file(files()[0], keep);
    auto found = cache.find(given.plan.key, trust_);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_FALSE(*found) << keep;
    EXPECT_TRUE(files().empty());
  }
}

TEST_F(DiskCacheTest, ARevokedPlanIsRefusedAndRemoved) {
  PulledPlan given = plan();
  DiskCache cache(directory());
  ASSERT_TRUE(cache.put(given, trust_).ok());
  trust_.revoked.plans = {given.id};
  auto found = cache.find(given.plan.key, trust_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kVerification);
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskCacheTest, WhatWasUsedLongestAgoMakesRoom) {
  DiskCache cache(directory(), 50'000);
  std::vector<PulledPlan> plans;
  for (const char* name : {"a", "b", "c"}) {
    plans.push_back(plan(name, 15'000));
    ASSERT_TRUE(cache.put(plans.back(), trust_).ok());
    // An hour apart, the first one oldest.
    for (const std::string& file : files()) {
      struct stat info {};
      ASSERT_EQ(::stat(file.c_str(), &info), 0);
      timespec times[2] = {info.st_atim, info.st_mtim};
      times[1].tv_sec -= 3600;
      ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    }
  }
  ASSERT_EQ(files().size(), 3u);
  ASSERT_TRUE(cache.find(plans[0].plan.key, trust_).value());  // used now
  PulledPlan last = plan("d", 15'000);
  ASSERT_TRUE(cache.put(last, trust_).ok());
  EXPECT_TRUE(cache.find(plans[0].plan.key, trust_).value());
  EXPECT_FALSE(cache.find(plans[1].plan.key, trust_).value());
  EXPECT_TRUE(cache.find(last.plan.key, trust_).value());
}

TEST_F(DiskCacheTest, OneOfManyProcessesFetches) {
  // They start together once the pipe is closed.
  int start[2];
  ASSERT_EQ(::pipe(start), 0);
  PulledPlan given = plan();
  std::string log = scratch_.path() + "/fetches";
  std::vector<pid_t> children;
  for (int i = 0; i < 64; ++i) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(start[1]);
      char none;
      (void)!::read(start[0], &none, 1);
      DiskCache cache(directory());
      auto flight = cache.try_fly(given.plan.key.digest());
      while (!flight) {
        std::this_thread::yield();
        flight = cache.try_fly(given.plan.key.digest());
      }
      if (!cache.find(given.plan.key, trust_).value()) {
        std::ofstream(log, std::ios::app) << "fetch\n";
        if (!cache.put(given, trust_).ok()) ::_exit(1);
      }
      flight.reset();
      ::_exit(cache.find(given.plan.key, trust_).value() ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(start[0]);
  ::close(start[1]);
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(common::read_file(log).value(), "fetch\n");
  EXPECT_TRUE(files(".lock").empty());
}

TEST_F(DiskCacheTest, WithoutADirectoryEveryoneMayFetchAndNothingIsKept) {
  std::ofstream(scratch_.path() + "/file") << "no directory";
  DiskCache cache(scratch_.path() + "/file/plans");
  auto first = cache.try_fly(common::digest_of("x"));
  EXPECT_TRUE(first);
  EXPECT_TRUE(cache.try_fly(common::digest_of("x")));
  PulledPlan given = plan();
  EXPECT_FALSE(cache.find(given.plan.key, trust_).value());
  EXPECT_FALSE(cache.put(given, trust_).ok());
}

TEST_F(DiskCacheTest, AFarmIsRememberedByItsAddress) {
  MetFarms met(scratch_.path() + "/farms");
  EXPECT_FALSE(met.find("tcp://a:1"));
  MetFarm farm{key_.public_key(), "team-a", "7"};
  ASSERT_TRUE(met.remember("tcp://a:1", farm).ok());
  EXPECT_EQ(met.find("tcp://a:1"), farm);
  EXPECT_FALSE(met.find("tcp://b:1"));
  farm.tenant = "team-b";
  ASSERT_TRUE(met.remember("tcp://a:1", farm).ok());
  EXPECT_EQ(MetFarms(scratch_.path() + "/farms").find("tcp://a:1"), farm);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() + "/farms")) {
    std::filesystem::resize_file(entry.path(), 40);
  }
  EXPECT_FALSE(met.find("tcp://a:1"));
}

}  // namespace
}  // namespace clients
