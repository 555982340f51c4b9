// lfarm generate and models that draw random numbers, with a farm: if these fail, tokens are not
// those that PyTorch gives, or prompts that do not fit are reported late or not at all.
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/farm/cli/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;

class CliGenerate : public CliTest {
 protected:
  static std::string decoder(const std::string& file = "") {
    return paths::fixtures("/decoder" + file);
  }
  // The decoder's folder, whose plans are found with few candidates.
  Invocation generate(const std::string& prompt, std::vector<std::string> more) {
    std::vector<std::string> all = {"generate", decoder(), "--prompt-ids", prompt, "--budget", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return lfarm(all);
  }
};

TEST_F(CliGenerate, GivesEagersTokensAndStopsWhereItShould) {
  Invocation all = generate(decoder("/prompt.txt"), {"--tokens", "30"});
  EXPECT_EQ(all.wait(), 0) << all.err();
  std::string expected = common::read_file(decoder("/tokens.txt")).value();
  EXPECT_EQ(all.out(), expected);
  // The fourth token, where it comes first, ends the sequence.
  std::istringstream words(expected);
  std::string stop;
  for (int k = 0; k < 4; ++k) words >> stop;
  Invocation some = generate(decoder("/prompt.txt"), {"--tokens", "30", "--stop", stop});
  EXPECT_EQ(some.wait(), 0) << some.err();
  EXPECT_EQ(some.out(), expected.substr(0, expected.find(stop) + stop.size()) + "\n");
}

TEST_F(CliGenerate, PlansOfItsProgramsAreScored) {
  Invocation run = generate(decoder("/prompt.txt"), {"--tokens", "2"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  auto plans = [&] {
    Invocation listed = lfarm({"cache", "ls"});
    EXPECT_EQ(listed.wait(), 0) << listed.err();
    return listed.out();
  };
  const std::string before = plans();
  auto score = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {
        "plan", "score", decoder("/prompt.pt2"), "--generate", "--budget", "2", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return lfarm(all);
  };
  Invocation card = score({});
  ASSERT_EQ(card.wait(), 0) << card.err();
  EXPECT_GT(nlohmann::json::parse(card.out()).at("latency").at("ms").get<double>(), 0);
  EXPECT_EQ(plans().size(), before.size()) << "another plan was made";
  Invocation wide = score({"--tokens", "100000"});
  EXPECT_EQ(wide.wait(), 2);
  EXPECT_NE(wide.err().find("no call takes 100000 tokens"), std::string::npos) << wide.err();
  Invocation by_id = lfarm({"plan", "score", "abcdef", "--generate"});
  EXPECT_EQ(by_id.wait(), 2);
  EXPECT_NE(by_id.err().find("--generate wants a model"), std::string::npos) << by_id.err();
}

// A search of so many candidates takes days.
TEST_F(CliGenerate, BeginsWithTheFirstPlans) {
  Invocation run = lfarm({"generate", decoder(), "--prompt-ids", decoder("/prompt.txt"), "--tokens",
                          "30", "--budget", "100000000", "--first-plan"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), common::read_file(decoder("/tokens.txt")).value());
}

TEST_F(CliGenerate, DrawsTheSameTokensWithOneSeed) {
  auto tokens = [&](const std::string& seed) {
    Invocation run = generate(decoder("/prompt.txt"), {"--tokens", "12", "--temperature", "1.5",
                                                       "--seed", seed, "--chunk", "4", "--json"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    std::istringstream lines(run.out());
    std::vector<int> found;
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line);
      if (json.contains("token")) found.push_back(json["token"].get<int>());
      if (json.contains("summary")) {
        EXPECT_GT(json["ttft_ms"].get<double>(), 0);
      }
    }
    EXPECT_EQ(found.size(), 12U);
    return found;
  };
  auto first = tokens("7");
  EXPECT_EQ(tokens("7"), first);
  EXPECT_NE(tokens("8"), first);
}

// The decoder's cache has 48 places; its prompt has 11 tokens.
TEST_F(CliGenerate, SaysThatTheCacheIsFull) {
  Invocation run = generate(decoder("/prompt.txt"), {"--tokens", "1000"});
  EXPECT_NE(run.wait(), 0);
  EXPECT_NE(run.err().find("the model has no place for a sequence of 49 tokens"), std::string::npos)
      << run.err();
  std::istringstream words(run.out());
  EXPECT_EQ(std::distance(std::istream_iterator<std::string>(words), {}), 38);
}

TEST_F(CliGenerate, RefusesPromptsBeforeItSearches) {
  auto expect = [&](const std::string& prompt, const std::string& message) {
    std::string file = path("prompt.txt");
    ASSERT_TRUE(common::write_file_atomic(file, common::as_bytes(prompt)).ok());
    Invocation run = generate(file, {});
    EXPECT_EQ(run.wait(), 2);
    EXPECT_NE(run.err().find(message), std::string::npos) << run.err();
    EXPECT_EQ(run.err().find("starting a farm"), std::string::npos) << run.err();
  };
  expect("1 2 x", "\"x\" is no token id");
  expect("1 2\n3 4\n", "the model takes 1 sequence, not 2");
  expect("[]", "the prompt is empty");
  expect("[1.5, 2]", "it is no JSON list of token ids");
  auto refused = [&](const std::vector<std::string>& options, const std::string& message) {
    Invocation run = generate(decoder("/prompt.txt"), options);
    EXPECT_EQ(run.wait(), 2);
    EXPECT_NE(run.err().find(message), std::string::npos) << run.err();
  };
  refused({"--stop", ""}, "--stop: there is no token id in it");
  refused({"--chunk", "-2"}, "--chunk: '-2' is no whole number");
  refused({"--top-p", "0"}, "top-p 0 is not in (0, 1]");
  refused({"--temperature", "nan"}, "the temperature nan is not a number of at least 0");
  Invocation none =
      lfarm({"generate", paths::fixtures("/models/mlp"), "--prompt-ids", decoder("/prompt.txt")});
  EXPECT_EQ(none.wait(), 3);
  EXPECT_NE(none.err().find("a model is given tokens, positions and a mask alone"),
            std::string::npos)
      << none.err();
}

}  // namespace
