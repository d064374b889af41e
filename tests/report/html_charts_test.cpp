#include "src/report/html_charts.h"

#include <gmock/gmock.h>

#include <array>
#include <set>

#include "tests/support/markup.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The texts of the elements <text> in `svg`, in their order.
std::vector<std::string> texts_in(const std::string& svg) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; (at = svg.find("<text", at)) != svg.npos;) {
    const std::size_t begin = svg.find('>', at) + 1, end = svg.find("</text>", begin);
    texts.push_back(svg.substr(begin, end - begin));
    at = end;
  }
  return texts;
}

TEST(HtmlCharts, DrawLinesFromLeftToRightAndUp) {
  const std::string svg = line_chart({.title = "Loss", .lines = {{"training", {{0.0, 0.0}, {100.0, 1.0}}}}});
  EXPECT_THAT(svg, HasSubstr(R"(points="52.0,218.0 424.0,10.0")"));
  EXPECT_THAT(texts_in(svg), ::testing::ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0", "0", "20", "40", "60", "80",
                                                    "100", "step"));
}

TEST(HtmlCharts, MarkASinglePoint) {
  const std::string svg = line_chart({.title = "Loss", .lines = {{"training", {{0.0, 1.0}}}}, .marked_step = 0.0});
  EXPECT_THAT(svg, HasSubstr(R"(<circle class="a" cx="52.0")")) << "at step 0, the begin of the axis";
}

TEST(HtmlCharts, HaveNoTickAboveAPerfectAccuracy) {
  const std::string svg = line_chart({.title = "Accuracy", .lines = {{"validation", {{0.0, 1.0}, {10.0, 1.0}}}}});
  EXPECT_THAT(svg, HasSubstr(">1.00</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">1.02</text>")));
}

TEST(HtmlCharts, AreEmptyWithoutPoints) {
  EXPECT_EQ(line_chart({.title = "Loss", .lines = {{"training", {}}}}), "");
  EXPECT_EQ(scatter_chart("age", {}), "");
}

TEST(HtmlCharts, NeighbouringTicksHaveDifferentTexts) {
  const std::pair<double, double> ranges[] = {{1995.2, 1996.1},   {0.9996, 0.99975}, {123456.0, 123460.0},
                                              {1e6, 1e6 + 300.0}, {1e-9, 3e-9},      {-5e6, 2e6},
                                              {-0.001, 0.001},    {1e12, 1.1e12},    {1.0, 1.0 + 1e-9}};
  for (const auto& [low, high] : ranges) {
    const std::array<PredictedNumber, 2> numbers{{{low, low}, {high, high}}};
    std::vector<std::string> texts = texts_in(scatter_chart("n", numbers));
    texts.pop_back();  // the title of the axis
    const std::size_t ticks = texts.size() / 2;
    EXPECT_EQ(std::set(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(ticks)).size(), ticks)
        << ::testing::PrintToString(texts);
  }
}

TEST(HtmlCharts, ScatterPredictedUpAndTrueToTheRight) {
  const std::array<PredictedNumber, 3> numbers{{{0.0, 0.0}, {10.0, 10.0}, {10.0, 2.0}}};
  const std::string svg = scatter_chart("age", numbers);
  EXPECT_THAT(svg, AllOf(HasSubstr(R"(cx="58.0" cy="338.0")"), HasSubstr(R"(cx="384.0" cy="10.0")"),
                         HasSubstr(R"(cx="384.0" cy="272.4")")));
  EXPECT_THAT(svg, HasSubstr(R"(<line class="mark" x1="58.0" y1="338.0" x2="384.0" y2="10.0"/>)"));
  EXPECT_THAT(svg, Not(HasSubstr("records")));
}

TEST(HtmlCharts, BarsOfACalibrationHaveTheAccuracy) {
  Calibration calibration;
  for (int i = 0; i < 4; ++i) calibration.add(0.9, i < 1);
  const std::string svg = calibration_chart(calibration);
  EXPECT_THAT(svg, HasSubstr("confidence 0.900, accuracy 0.250, 4 records"));
  EXPECT_THAT(svg, HasSubstr(R"(height="64.5"><title>confidence)")) << "a quarter of the plot";
}

}  // namespace
}  // namespace carillon
