#include "src/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "tests/report/page_facts.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/markup.h"

namespace carillon::testing {
namespace {

TEST(HtmlText, EscapesWhatMarkupUses) {
  EXPECT_EQ(html_text("<b>&\"'größe"), "&lt;b&gt;&amp;&quot;&#39;größe");
  EXPECT_EQ(html_text("a\n\x7F\xFF"), "a\\x0a\\x7f\\xff");
}

TEST(HtmlText, OmitsTheMiddleOfALongText) {
  const std::string text = html_text("begin" + std::string(1000, 'x') + "end", 100);
  EXPECT_TRUE(text.starts_with("beginx") && text.ends_with("xend")) << text;
  EXPECT_LE(text.size(), 130u);
}

/// The examples come from RFC 4648, section 10.
TEST(HtmlText, EncodesBytesInBase64) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) EXPECT_EQ(base64(bytes), text);
  EXPECT_EQ(base64(std::string_view("\xFF\xFE\x00", 3)), "//4A");
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ScoreText score_texts[] = {{"r2", "R2", "1 is perfect"}, {"mae", "Mean absolute error", "lower is better"}};

std::string page_of(const PageFacts& facts) {
  return html_page(facts, {.outputs = "2 numbers",
                           .scores = score_texts,
                           .sections = {{"own", "Own section", "<p>own</p>"}},
                           .about_pictures = "About pictures."});
}

TEST(HtmlPage, HasTheSectionsOfAllTasksAroundItsOwn) {
  const Markup page(page_of(page_facts()));
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "section"), 5);
  EXPECT_EQ(count(page, "a"), 5);
  EXPECT_THAT(page.text, HasSubstr("2 numbers"));
  EXPECT_THAT(page.text, HasSubstr("ScoresLearning curvesOwn sectionPicturesRun"));
}

TEST(HtmlPage, ShowsScoresInTheOrderOfTheirTextsAndWithoutLosingDigits) {
  PageFacts facts = page_facts();
  facts.scores = {
      {.name = "mae", .value = 0.000012345}, {.name = "unknown", .value = 1.0}, {.name = "r2", .value = NAN}};
  const std::string text = Markup(page_of(facts)).text;
  EXPECT_THAT(text, HasSubstr("R2–1 is perfect\nMean absolute error1.2345e-05lower is better\n"));
  EXPECT_THAT(text, Not(HasSubstr("unknown")));
}

TEST(HtmlPage, TablesTheEvaluationsByTheLoggedNamesOfTheScores) {
  PageFacts facts = page_facts();
  facts.scores = {{.name = "r2", .value = 0.5, .log_name = "logged"}, {.name = "mae", .value = 1.0}};
  facts.curves.evaluations = {{10, {{"logged", 0.25}}}, {20, {{"mae", 3.0}, {"other", 1.0}}}};
  const std::string text = page_of(facts);
  EXPECT_THAT(text, HasSubstr("<td class=\"n\">10</td><td class=\"n\">0.2500</td><td class=\"n\">–</td></tr>\n<tr>"
                              "<td class=\"n\">20</td><td class=\"n\">–</td><td class=\"n\">3.0000</td></tr>"));
  EXPECT_THAT(text, HasSubstr("<b>R2</b>")) << "the chart of the first score";
  EXPECT_THAT(text, Not(HasSubstr("<b>Mean absolute error</b>")));
  EXPECT_THAT(text, HasSubstr("<summary>2 evaluations as a table</summary>"));
  facts.curves.evaluations.pop_back();
  EXPECT_THAT(page_of(facts), HasSubstr("<summary>1 evaluation as a table</summary>"));
}

TEST(HtmlPage, ShowsWholeNamesOfPictures) {
  PageFacts facts = page_facts();
  const std::string origin =
      "validation-00000-of-00001.tfrecord: record 42, собака/a picture with a long name 0001.jpg";
  facts.pictures.front().shown.front().origin = origin;
  EXPECT_THAT(page_of(facts), HasSubstr("<small>" + origin + "</small>"));
}

TEST(HtmlPage, ChartsShowTheEvaluatedStepAlsoAfterTheLastPoint) {
  PageFacts facts = page_facts();
  facts.network.step = 1900;
  EXPECT_THAT(page_of(facts), HasSubstr("<line class=\"mark\" x1=\"405.4\""));
}

TEST(HtmlPage, MarksPredictionsThatAreRightOrWrong) {
  PageFacts facts = page_facts();
  facts.pictures.resize(1);
  facts.pictures[0].shown.resize(1);
  ShownPrediction& shown = facts.pictures[0].shown[0];
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line wrong\">✗<span class=\"hidden\"> wrong</span> 98.10 %"));
  shown.is_right = true;
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line right\">✓<span class=\"hidden\"> right</span> 98.10 %"));
  shown.is_right.reset();
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line\">98.10 %"));
}

TEST(HtmlPage, LeavesTheOldOneUntilTheNewIsWhole) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.html";
  const std::string page = page_of(page_facts());
  write_text(path, "old");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(error_of([&] { write_page(path, page); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path), "old");
  write_page(path, page);
  EXPECT_EQ(read_text(path), page);
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

}  // namespace

}  // namespace carillon::testing

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the texts of the <text> elements in `svg`, in order.
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
    texts.pop_back();  // this text is the title of the axis
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
