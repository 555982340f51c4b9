// If these fail, a tiling is not read back as it was printed, or a form takes sizes that are not
// its own.
#include "common/ir/llir/tiling.h"

#include <gtest/gtest.h>

namespace common {
namespace {

struct Form {
  static constexpr std::string_view kForm = "form";
  int64_t rows = 64;
  bool online = true;
  Expr splits = 1;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("online", t.online);
    visit("splits", t.splits);
  }
};

TEST(Tiling, IsReadBackAsItWasPrinted) {
  const Expr s = Expr::symbol(0);
  for (const Expr& splits : {Expr(1), s, min(4, floor_div(s + Expr(63), Expr(64)))}) {
    const Tiling tiling = to_tiling(Form{128, false, splits});
    auto parsed = parse_tiling(print(tiling));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_TRUE(*parsed == tiling) << print(tiling);
    auto form = from_tiling<Form>(*parsed);
    ASSERT_TRUE(form.ok()) << form.error().message;
    EXPECT_EQ(form->rows, 128);
    EXPECT_FALSE(form->online);
    EXPECT_TRUE(form->splits == splits);
  }
  EXPECT_EQ(print(to_tiling(Form{})), "form online=1 rows=64 splits=1");
}

TEST(Tiling, RefusesOtherText) {
  for (const char* text :
       {"", " ", "form rows", "form rows=", "form =64", "form of rows=64", "form rows=64 rows=32",
        "form rows=sixty", "form splits=[min(4, s0)", "form rows=64 extra"}) {
    EXPECT_FALSE(parse_tiling(text).ok()) << text;
  }
}

TEST(Tiling, OfAFormHasItsSizesAndNoOthers) {
  const Tiling good = to_tiling(Form{});
  ASSERT_TRUE(from_tiling<Form>(good).ok());
  auto refused = [&](auto change) {
    Tiling tiling = good;
    change(tiling);
    auto form = from_tiling<Form>(tiling);
    return !form.ok() && form.error().code == Code::kInvalidInput;
  };
  EXPECT_TRUE(refused([](Tiling& t) { t.form = "another"; }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes.erase("rows"); }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes["columns"] = 1; }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes["rows"] = -1; }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes["rows"] = int64_t{1} << 31; }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes["rows"] = Expr::symbol(0); }));
  EXPECT_TRUE(refused([](Tiling& t) { t.sizes["online"] = 2; }));
  EXPECT_FALSE(refused([](Tiling& t) { t.sizes["splits"] = Expr::symbol(0); }));
  EXPECT_FALSE(refused([](Tiling& t) { t.sizes["rows"] = INT32_MAX; }));
}

}  // namespace
}  // namespace common
