// What searches take from one kernel to another: if these fail, every search learns the schedules
// of its device anew.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "common/cost/kernels/cost_model.h"
#include "coordinator/search/genes/kernel_traits.h"

namespace coordinator {
namespace {

using common::Template;

KernelTraits traits(Template form, const common::DeviceTerms& terms, uint64_t body) {
  KernelTraits t;
  t.profiles = {{{}, 1}};
  t.form = form;
  t.body = body;
  t.terms = &terms;
  t.predicted_ns = 1e6;
  t.m = t.n = t.k = 512;
  t.row = 512;
  return t;
}

// What later searches know after one in which `body` was measured with every value of parameter p,
// of which number `best` halved its time.
EffectTable learned(const KernelTraits& body, size_t p, size_t best) {
  EffectModel model(nullptr);
  size_t values = common::schedule_parameters(body.form)[p].values.size();
  for (int again = 0; again < 4; ++again) {
    for (size_t digit = 0; digit < values; ++digit) {
      model.add(features_of(body, with_digit(body.form, 0, p, digit)), digit == best ? -0.7 : 0);
    }
  }
  model.fit();
  EffectTable kept;
  for (const auto& [feature, effect] : model.learned()) {
    if (is_general(feature)) kept[feature] = effect;
  }
  return kept;
}

TEST(Traits, EveryParameterTeachesLaterSearches) {
  for (const char* target : {"cpu-x86_64-avx512", "cuda-sm_90a"}) {
    const common::DeviceTerms& terms = common::device_terms({target});
    for (int f = 0; f < common::kTemplateCount; ++f) {
      auto form = static_cast<Template>(f);
      KernelTraits measured = traits(form, terms, 1), another = traits(form, terms, 2);
      for (size_t p : schedule_parameters_on(form, terms.machine)) {
        const common::ScheduleChoice& choice = common::schedule_parameters(form)[p];
        size_t best = choice.values.size() - 1;
        EffectTable known = learned(measured, p, best);
        EffectModel model(&known);
        auto mean = [&](size_t digit) {
          return model.mean(features_of(another, with_digit(form, 0, p, digit)));
        };
        for (size_t digit = 0; digit < best; ++digit) {
          EXPECT_LT(mean(best), mean(digit) - 0.1)
              << target << " " << common::template_name(form) << " " << choice.name;
        }
      }
    }
  }
}

// A decoding step's products read each weight once, whatever the tile; a prompt's compute.
TEST(Traits, ProductsOfFewRowsTeachNothingOfOthers) {
  const common::DeviceTerms& terms = common::device_terms({"cpu-x86_64-avx512"});
  KernelTraits step = traits(Template::kTile, terms, 1), prompt = traits(Template::kTile, terms, 2);
  step.m = 1;
  constexpr size_t kMr = 2;
  EffectTable known = learned(step, kMr, 0);
  EffectModel model(&known);
  auto mean = [&](KernelTraits& t, size_t digit) {
    return model.mean(features_of(t, with_digit(Template::kTile, 0, kMr, digit)));
  };
  EXPECT_LT(mean(step, 0), mean(step, 1) - 0.1);
  EXPECT_EQ(mean(prompt, 0), mean(prompt, 1));
}

// On a machine that takes twice as long as the constants say, a kind of kernels that was not
// measured yet takes about as much longer; else searches would hold what they have not tried for
// faster.
TEST(Traits, KindsThatWereNotMeasuredAreAsSlowAsTheMachine) {
  const common::DeviceTerms& terms = common::device_terms({"cpu-x86_64-avx512"});
  EffectModel model(nullptr);
  const double twice = std::log(2.0);
  for (uint64_t body = 1; body <= 8; ++body) {
    KernelTraits t = traits(body % 2 == 0 ? Template::kLoops : Template::kTile, terms, body);
    model.add(features_of(t, 0), twice);
    model.fit();
  }
  EXPECT_NEAR(model.mean(features_of(traits(Template::kAttention, terms, 9), 0)), twice,
              0.4 * twice);
}

// An attention of few rows on a GPU: its blocks decide how often it waits for memory.
TEST(Traits, PredictionsOfAttentionFollowTheSchedule) {
  const common::DeviceTerms& terms = common::device_terms({"cuda-sm_90a"});
  KernelTraits t = traits(Template::kAttention, terms, 1);
  common::KernelProfile profile;
  profile.attention.rows = 4;
  profile.attention.is_half = true;
  profile.attention.batch = 8;
  profile.attention.keys = 4096;
  profile.attention.depth = profile.attention.width = 128;
  profile.moved_bytes = 8 * 4096 * 256 * 2;
  profile.contraction_ops = 8 * 4 * 4096 * 256;
  t.profiles = {{profile, 1}};
  const double chosen = predict_ns(t, 0);
  std::map<std::string_view, std::set<double>> seen;
  for (size_t p : schedule_parameters_on(t.form, terms.machine)) {
    const common::ScheduleChoice& choice = common::schedule_parameters(t.form)[p];
    for (size_t digit = 0; digit < choice.values.size(); ++digit) {
      const double ns = predict_ns(t, with_digit(t.form, 0, p, digit));
      EXPECT_GE(ns, chosen) << choice.name << " " << choice.values[digit];
      seen[choice.name].insert(ns);
    }
  }
  EXPECT_GE(seen["splits"].size(), 4U);
  EXPECT_GE(seen["block_keys"].size(), 2U);
  EXPECT_EQ(seen["online"].size(), 2U);
}

}  // namespace
}  // namespace coordinator
