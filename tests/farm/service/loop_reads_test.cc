// What the event loop reads of a large store for one request: if these fail, a farm that knows much
// answers nobody while one client asks.
#include <map>
#include <string>

#include "cache/store/database.h"
#include "cache/store/store.h"
#include "common/base/cat.h"
#include "coordinator/service/monitoring.h"
#include "coordinator/service/status.h"
#include "coordinator/service/web/page_views.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::digest_of;

class LoopReadsTest : public ServiceTest {
 protected:
  // Plans and measurements of a farm that has worked for long.
  void fill(int from, int to) {
    auto store = std::move(cache::Store::open(options_.state)).value();
    std::vector<cache::NewPlan> plans;
    cache::Changes changes;
    for (int k = from; k < to; ++k) {
      cache::NewPlan& plan = plans.emplace_back();
      plan.facts = {digest_of(cat("key ", k)), digest_of(cat("graph ", k)), filler(k), 1000, 1000};
      plan.bytes = cat("plan ", k);
      plan.names = {digest_of(cat("name ", k))};
      for (const char* device : {"cpu", "gpu"}) {
        changes.measurements.push_back({digest_of(cat("kernel ", k)), device, {1, 5, k}});
      }
    }
    ASSERT_TRUE(store->put_plans_if_better(plans).ok());
    ASSERT_TRUE(store->commit({&changes, 1}).ok());
  }
  static common::Digest filler(int k) { return digest_of(cat("id ", k)); }

  std::string asked(const std::function<std::string(const StatusSources&)>& question) {
    while (true) {
      if (auto text = service().ask(question)) return *text;
    }
  }
  // By the loop's thread, since it began.
  int64_t reads() {
    return std::stoll(asked(
        [](const StatusSources&) { return std::to_string(cache::records_read_by_this_thread()); }));
  }
  // Of one request, however many turns it takes.
  void ask(const std::string& name, const std::function<void()>& request) {
    int64_t before = reads();
    request();
    reads_[name] = reads() - before;
  }
  // Until an answer of this kind has come.
  template <class Answer>
  void send(FakeClient& client, const common::Message& message) {
    size_t before = client.count<Answer>();
    client.send(message);
    ASSERT_TRUE(converse({&client}, [&] { return client.count<Answer>() > before; }))
        << common::message_name(message);
  }
  // Everything that people and programs ask while a farm works.
  std::map<std::string, int64_t> ask_everything(int revoked) {
    reads_.clear();
    FakeClient client(endpoint());
    for (auto topic : {common::StatusTopic::kStatus, common::StatusTopic::kWorkers,
                       common::StatusTopic::kJobs, common::StatusTopic::kCache}) {
      ask(cat("status ", static_cast<int>(topic)), [&] {
        send<common::StatusReply>(client, common::StatusRequest{1, topic});
      });
    }
    ask("a hit", [&] {
      client.submit(scripted_graph(8), request());
      ASSERT_TRUE(converse({&client}, [&] { return client.plan() != nullptr; }));
    });
    ask("a pull", [&] { send<common::PlanReady>(client, common::PullPlan{2, plan_key_}); });
    ask("a miss", [&] {
      send<common::PlanMissing>(client, common::PullPlan{3, digest_of("nobody's")});
    });
    ask("a revocation", [&] {
      send<common::PlanRevoked>(client, common::RevokePlan{4, filler(revoked), "it is wrong"});
    });
    ask("what is revoked", [&] {
      send<common::RevocationsAre>(client, common::AskRevocations{5, {}});
    });
    ask("reverify", [&] { send<common::PlansChanged>(client, common::Reverify{6}); });
    ask("overview", [&] { asked(overview_json); });
    ask("workers", [&] {
      asked([](const StatusSources& sources) { return workers_page_json(sources, 0, 200); });
    });
    ask("jobs", [&] {
      asked([](const StatusSources& sources) { return jobs_page_json(sources, 0, 200); });
    });
    ask("a job", [&] { asked([](const StatusSources& sources) { return job_json(sources, 1); }); });
    ask("metrics", [&] { asked(metrics_text); });
    ask("demand",
        [&] { asked([](const StatusSources& sources) { return demand_json(sources, ""); }); });
    return reads_;
  }

  common::Digest plan_key_;

 private:
  std::map<std::string, int64_t> reads_;
};

TEST_F(LoopReadsTest, NoRequestReadsMoreOfALargerStore) {
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    FakeClient client(endpoint());
    client.submit(scripted_graph(8), request());
    ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
    plan_key_ = client.last<common::PlanReady>()->plan_key;
  }
  stop();
  constexpr int kFew = 20, kMany = 3'000;
  fill(0, kFew);
  start();
  auto of_few = ask_everything(0);
  stop();
  fill(kFew, kMany);
  start();
  auto of_many = ask_everything(1);
  ASSERT_EQ(of_many.size(), of_few.size());
  for (const auto& [name, count] : of_many) {
    // What the first revocation adds, and what turns between two questions read in any case.
    constexpr int64_t kAnyway = 10;
    EXPECT_LE(count, of_few[name] + kAnyway) << name;
    RecordProperty(name, static_cast<int>(count));
  }
}

}  // namespace
}  // namespace coordinator::service
