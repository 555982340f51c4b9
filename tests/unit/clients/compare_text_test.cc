// What `lfarm compare` says: if these fail, a user reads a ratio of wrong outputs, or one against a
// side that should not be compared with.
#include "clients/cli/compare/compare_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace clients {
namespace {

SideResult side(const std::string& name, std::vector<double> us) {
  return {name, std::move(us), "", "", true};
}

// Reads of 8 MB at 1 GB/s: 8 ms at least.
Comparison comparison() {
  Comparison out;
  out.row = {"llama", "f32", 2, {}, {1e6, 8e6, 1e9, 1e9}, ""};
  out.row.sides = {side("lfarm", {10'000, 10'000, 14'000}), side("eager", {40'000}),
                   side("inductor", {15'000})};
  out.plan = "abcd";
  out.machine = "a machine";
  out.peers = "torch 9";
  out.verified = true;
  return out;
}

TEST(CompareText, TellsTimesRatiosAndShares) {
  EXPECT_EQ(text_of(comparison()),
            "model     llama, f32, 2 threads\n"
            "plan      abcd\n"
            "machine   a machine\n"
            "PyTorch   torch 9\n"
            "\n"
            "           a call  beside lfarm  of the roofline  outputs\n"
            "lfarm     10.0 ms          1.00             0.80  same\n"
            "eager     40.0 ms          4.00             0.20  reference\n"
            "inductor  15.0 ms          1.50             0.53  same\n"
            "\n"
            "lfarm is 1.50 times as fast as inductor, the fastest beside it\n");
  auto json = nlohmann::json::parse(json_of(comparison()));
  EXPECT_EQ(json["sides"][2]["name"], "inductor");
  EXPECT_EQ(json["sides"][2]["ms"], 15.0);
  EXPECT_EQ(json["sides"][2]["ratio"], 1.5);
  EXPECT_EQ(json["sides"][0]["roofline"], 0.8);
  EXPECT_EQ(json["sides"][1]["outputs"], "reference");
  EXPECT_EQ(json["best_peer"], "inductor");
  EXPECT_EQ(json["ratio_to_best"], 1.5);
  EXPECT_FALSE(json.contains("problem"));
}

TEST(CompareText, WrongOutputsHaveNoRatio) {
  Comparison wrong = comparison();
  wrong.row.problem = "lfarm's outputs are not PyTorch's: output 0";
  std::string text = text_of(wrong);
  EXPECT_NE(text.find("lfarm     10.0 ms             -             0.80  differ\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("times as fast"), std::string::npos) << text;
  EXPECT_NE(text.find("\nlfarm's outputs are not PyTorch's: output 0\n"), std::string::npos)
      << text;
  auto json = nlohmann::json::parse(json_of(wrong));
  EXPECT_TRUE(json["ratio_to_best"].is_null());
  EXPECT_TRUE(json["sides"][1]["ratio"].is_null());
  EXPECT_EQ(json["sides"][0]["outputs"], "differ");
}

TEST(CompareText, PeersThatFailOrDifferCompeteWithNobody) {
  Comparison out = comparison();
  out.row.sides[2].competes = false;
  out.row.sides[2].note = "inductor: its outputs are not eager's: output 0";
  out.row.sides.push_back({"onnxruntime", {}, "", "onnxruntime: No module named onnx", true});
  std::string text = text_of(out);
  EXPECT_NE(text.find("inductor     15.0 ms          1.50             0.53  differ\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("onnxruntime        -             -                -  none\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("inductor: its outputs are not eager's: output 0\n"
                      "onnxruntime: No module named onnx\n"
                      "lfarm is 4.00 times as fast as eager, the fastest beside it\n"),
            std::string::npos)
      << text;
  out.verified = false;
  auto json = nlohmann::json::parse(json_of(out));
  EXPECT_EQ(json["sides"][0]["outputs"], "not compared");
}

}  // namespace
}  // namespace clients
