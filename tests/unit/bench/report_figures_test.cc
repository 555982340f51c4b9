// Figures of a report: if these fail, numbers are written so that nobody reads them, or marks lie
// where their values do not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "clients/report/drawing/curves.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/heat_map.h"

namespace clients {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Figures, WriteNumbersForPeople) {
  for (const auto& [value, text] :
       std::vector<std::pair<double, const char*>>{{0, "0"},
                                                   {1, "1.00"},
                                                   {0.01234, "0.0123"},
                                                   {12.34, "12.3"},
                                                   {999.9, "1,000"},
                                                   {123456, "123,456"},
                                                   {1000, "1,000"},
                                                   {1e-7, "0.000000100"}}) {
    EXPECT_EQ(number_text(value), text);
  }
}

TEST(Figures, WriteTicksWithoutZerosAtTheEnd) {
  for (const auto& [value, text] : std::vector<std::pair<double, const char*>>{{1, "1"},
                                                                               {10, "10"},
                                                                               {1000, "1,000"},
                                                                               {0.5, "0.5"},
                                                                               {0.001, "0.001"},
                                                                               {1e-6, "1e-06"}}) {
    EXPECT_EQ(tick_text(value), text);
  }
}

TEST(Figures, PutValuesOnALogarithmicScale) {
  LogScale scale;
  EXPECT_TRUE(scale.is_empty());
  EXPECT_TRUE(scale.ticks().empty());
  scale.show(0);
  EXPECT_TRUE(scale.is_empty());
  scale.show(7);
  EXPECT_EQ(scale.place(7), 0.5);
  EXPECT_FALSE(scale.ticks().empty());
  scale.show(700);
  EXPECT_EQ(scale.place(7), 0);
  EXPECT_NEAR(scale.place(70), 0.5, 1e-12);
  EXPECT_EQ(scale.place(700), 1);
  EXPECT_EQ(scale.ticks(), (std::vector<double>{10, 20, 50, 100, 200, 500}));
}

TEST(Figures, WriteValuesOfAnySize) {
  for (const auto& [value, text] :
       std::vector<std::pair<double, const char*>>{{0, "0"},
                                                   {-0.05, "-0.0500"},
                                                   {1.2e-7, "1.20e-07"},
                                                   {-3e9, "-3.00e+09"},
                                                   {kNan, "not finite"}}) {
    EXPECT_EQ(value_text(value), text);
  }
  EXPECT_EQ(axis_text(0), "0");
  EXPECT_EQ(axis_text(-0.5), "-0.5");
}

TEST(Axes, HaveTicksWithinTheirRange) {
  Axis axis(Axis::Kind::kLinear);
  EXPECT_TRUE(axis.ticks().empty());
  axis.show(kNan);
  axis.show(-1);
  EXPECT_EQ(axis.place(-1), 0.5);
  axis.show(3);
  EXPECT_EQ(axis.ticks(), (std::vector<double>{-1, 0, 1, 2, 3}));
  EXPECT_EQ(axis.place(1), 0.5);
  Axis logarithmic(Axis::Kind::kLogarithmic);
  logarithmic.show(0);
  EXPECT_TRUE(logarithmic.ticks().empty());
  logarithmic.show(1);
  logarithmic.show(100);
  EXPECT_NEAR(logarithmic.place(10), 0.5, 1e-12);
  EXPECT_EQ(logarithmic.place(0), 0);
}

TEST(Curves, AreLogarithmicWhereValuesDiffer) {
  EXPECT_EQ(kind_for({{0, {{0, 1}, {1, 2}}}}), Axis::Kind::kLinear);
  EXPECT_EQ(kind_for({{0, {{0, 1}, {1, 100}}}}), Axis::Kind::kLogarithmic);
  EXPECT_EQ(kind_for({{0, {{0, 0}, {1, 1}, {2, 100}, {3, kNan}}}}), Axis::Kind::kLogarithmic);
  EXPECT_EQ(kind_for({{0, {{0, -1}, {1, 100}}}}), Axis::Kind::kLinear);
  EXPECT_EQ(kind_for({}), Axis::Kind::kLinear);
}

TEST(Curves, AreThinnedByMeans) {
  std::vector<std::pair<double, double>> points{{0, 1}, {1, 3}, {2, kNan}, {3, 5}, {4, kNan}};
  EXPECT_EQ(thinned(points, 5).size(), 5u);
  auto thin = thinned(points, 3);
  ASSERT_EQ(thin.size(), 3u);
  EXPECT_EQ(thin[0], (std::pair<double, double>{0.5, 2}));
  EXPECT_EQ(thin[1], (std::pair<double, double>{2.5, 5}));
  EXPECT_TRUE(std::isnan(thin[2].second));
}

TEST(Curves, BeginAnewBehindAGap) {
  HtmlWriter html;
  write_curves(&html, {{0, {{0, 1}, {1, 2}, {2, kNan}, {3, 4}}}}, {"what", "step"});
  EXPECT_NE(html.take().find("d=\"M0.0 1000.0L333.3 666.7M1000.0 0.0\""), std::string::npos);
}

TEST(HeatMaps, ShrinkByBlocks) {
  HeatMap map;
  map.values.assign(2 * kHeatRowsMax, std::vector<double>(3, 1));
  map.values[0] = {kNan, 5, 1};
  size_t rows = 0, columns = 0;
  HeatMap small = shrunk(map, &rows, &columns);
  EXPECT_EQ(rows, 2u);
  EXPECT_EQ(columns, 1u);
  ASSERT_EQ(small.values.size(), kHeatRowsMax);
  EXPECT_EQ(small.values[0], (std::vector<double>{1, 3, 1}));
  EXPECT_EQ(small.row_names[1], "2");
}

TEST(HeatMaps, HaveColoursOnBothSidesOfZero) {
  HeatMap map;
  map.values = {{-2, 0, 1}};
  HeatScale both;
  both.show(map);
  EXPECT_EQ(both.look(-2), "d0");
  EXPECT_EQ(both.look(0), "d3");
  EXPECT_EQ(both.look(2), "d6");
  EXPECT_EQ(both.look(kNan), "qx");
  map.values = {{-0.01, 1, 2}};
  HeatScale nearly;
  nearly.show(map);
  EXPECT_EQ(nearly.look(-0.01), "q0");
  map.values = {{0, 1, 2}};
  HeatScale above;
  above.show(map);
  EXPECT_EQ(above.look(0), "q0");
  EXPECT_EQ(above.look(2), "q8");
  map.values = {{1, 10, 100}};
  HeatScale logarithmic;
  logarithmic.show(map);
  EXPECT_TRUE(logarithmic.is_logarithmic());
  EXPECT_EQ(logarithmic.look(10), "q4");
  map.values = {{7}};
  HeatScale one;
  one.show(map);
  EXPECT_EQ(one.look(7), "q4");
}

}  // namespace
}  // namespace clients
