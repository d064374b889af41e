#include "src/report/tensorboard.h"

#include <gmock/gmock.h>
#include <png.h>

#include <algorithm>
#include <optional>

#include "carillon/data/record.h"
#include "report/event.pb.h"
#include "tests/support/event_files.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using testing::entry_count;
using testing::event_files;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_events;
using testing::TemporaryDirectory;
using testing::write_text;

class EventFile : public ::testing::Test {
 protected:
  std::vector<event::Event> only_file() { return read_events(event_files(directory_.path()).at(0)); }
  std::function<void(const std::string&)> warn() {
    return [this](const std::string& line) { warnings_.push_back(line); };
  }

  TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(EventFile, StartsWithItsVersionOnDiskAtOnce) {
  const EventWriter writer(directory_.path(), 0, warn());
  const auto events = only_file();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[0].wall_time(), 1.5e9);
}

TEST_F(EventFile, OfARunThatStartsOverBehindAnotherHasASessionStartAtStepZero) {
  { const EventWriter killed(directory_.path(), 0, warn()); }
  const EventWriter writer(directory_.path(), 0, warn());
  const auto events = read_events(event_files(directory_.path()).at(1));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 0);
  EXPECT_EQ(events[1].session_log().status(), event::SessionLog::START);
}

TEST_F(EventFile, OfAResumedRunHasASessionStartAtItsFirstStep) {
  const EventWriter writer(directory_.path(), 500, warn());
  const auto events = only_file();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 500);
  EXPECT_EQ(events[1].session_log().status(), event::SessionLog::START);
}

TEST_F(EventFile, BeginsWithVersionAndStartThoughWritingThemFailedAtFirst) {
  std::optional<EventWriter> writer;
  {
    const testing::FileSizeLimit limit(0);
    writer.emplace(directory_.path(), 500, warn());
    writer->scalar("lost", 500, 1.0);
    writer->flush();
  }
  writer->scalar("kept", 501, 1.0);
  writer->flush();
  const auto events = only_file();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), event::SessionLog::START);
  EXPECT_EQ(events[1].step(), 500);
  EXPECT_EQ(events[2].summary().value(0).tag(), "kept");
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(EventFile, HoldsPicturesAsPng) {
  const std::vector<std::uint8_t> pixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 7, 8, 9, 1, 2, 3, 40, 50, 60};
  {
    EventWriter writer(directory_.path(), 0, warn());
    writer.image("images", 4, {.height = 2, .width = 3, .channels = 3, .pixels = pixels});
  }
  const event::Image image = only_file().at(1).summary().value(0).image();
  EXPECT_EQ(image.height(), 2);
  EXPECT_EQ(image.width(), 3);
  EXPECT_EQ(image.colorspace(), 3);
  const std::string& file = image.encoded_image_string();
  png_image decoded{};
  decoded.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&decoded, file.data(), file.size()), 0);
  decoded.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> read(PNG_IMAGE_SIZE(decoded));
  ASSERT_NE(png_image_finish_read(&decoded, nullptr, read.data(), 0, nullptr), 0);
  EXPECT_EQ(read, pixels);
}

TEST_F(EventFile, HoldsScalarsHistogramsAndTheGraph) {
  {
    EventWriter writer(directory_.path(), 0, warn());
    writer.graph(std::vector<GraphNode>{{"x", "Input", {}, "cpu"}, {"y", "Dense", {"x"}, "cpu", Shape{100, 10}}});
    writer.scalar("loss", 5000000000, 2.5);
    writer.histogram("weights", 3, histogram_of(std::vector<float>{1, 2, 3}));
  }
  const auto events = only_file();
  ASSERT_EQ(events.size(), 4u);
  event::Graph graph;
  EXPECT_TRUE(graph.ParseFromString(events[1].graph_def()));
  EXPECT_EQ(graph.node(1).name(), "y");
  EXPECT_EQ(graph.node(1).input(0), "x");
  EXPECT_FALSE(graph.node(0).attr().contains("_output_shapes"));
  const event::Attribute shapes = graph.node(1).attr().at("_output_shapes");
  ASSERT_EQ(shapes.list().shape(0).dim_size(), 2);
  EXPECT_EQ(shapes.list().shape(0).dim(0).size(), 100);
  EXPECT_EQ(shapes.list().shape(0).dim(1).size(), 10);
  EXPECT_EQ(events[2].step(), 5000000000);
  EXPECT_EQ(events[2].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 2.5f);
  EXPECT_EQ(events[3].summary().value(0).histo().num(), 3);
  EXPECT_EQ(events[3].summary().value(0).histo().sum_squares(), 14);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(EventFile, HasEverythingOnDiskAfterAFlush) {
  EventWriter writer(directory_.path(), 0, warn());
  writer.scalar("loss", 1, 1);
  writer.flush();
  EXPECT_EQ(only_file().size(), 2u);
}

TEST_F(EventFile, OfALaterWriterSortsLaterForAnyClock) {
  write_text(directory_.path() / "events.out.tfevents.4000000000.other.1", "");
  { const EventWriter writer(directory_.path(), 3, warn()); }
  { const EventWriter writer(directory_.path(), 1, warn()); }
  { const EventWriter writer(directory_.path(), 2, warn()); }
  const auto files = event_files(directory_.path());
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(read_events(files[1]).at(1).step(), 3);
  EXPECT_EQ(read_events(files[2]).at(1).step(), 1);
  EXPECT_EQ(read_events(files[3]).at(1).step(), 2);
}

TEST_F(EventFile, IsNotNamedAfterATimeThatNoWriterGives) {
  write_text(directory_.path() / "events.out.tfevents.9223372036854775806.other.1", "");
  const EventWriter writer(directory_.path(), 3, warn());
  const std::string name = std::filesystem::path(event_files(directory_.path()).at(0)).filename(),
                    prefix = "events.out.tfevents.";
  EXPECT_EQ(name.find('.', prefix.size()), prefix.size() + 10) << name;
}

TEST_F(EventFile, ThatCannotBeMadeWarnsOnceAndGoesOn) {
  EventWriter writer(directory_.path() / "nowhere", 3, warn());
  for (int i = 0; i < 3; ++i) {
    writer.scalar("loss", i, i);
    writer.flush();
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("nowhere/events.out.tfevents.")));
}

TEST_F(EventFile, OnAFullDiskWarnsOnceAndHoldsWholeRecords) {
  {
    EventWriter writer(directory_.path(), 0, warn());
    {
      const testing::FileSizeLimit limit(100);
      for (int i = 0; i < 20; ++i) {
        writer.scalar("loss", i, i);
        writer.flush();
      }
    }
    writer.scalar("loss", 20, 20);
  }
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(only_file().back().step(), 20);
}

}  // namespace
}  // namespace carillon
