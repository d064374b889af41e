// Network: a value made from what data and options say, that builds its layers into a graph. Nothing in it knows of
// ranks, devices or programs; a program lists the networks that it can train.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/image_shape.h"
#include "carillon/graph/graph.h"
#include "carillon/tasks/task.h"

namespace carillon {

/// y = (v / 255 - mean) / deviation by channel, of pixels v.
struct PixelNormalization {
  std::array<float, 3> mean = {}, deviation = {1.0f, 1.0f, 1.0f};
};

/// What a network is made from: the data, the task and the options. For an evaluation only image, density, outputs,
/// pixel_scale and normalization are set: the others may change neither names nor shapes of variables.
struct NetworkSettings {
  ImageShape image;             ///< of the records
  float density = 1.0f;         ///< the share of their bytes that are not zero, where it is known; for speed only
  std::int64_t outputs = 0;     ///< elements of the network's output for one sample (Task::outputs)
  float pixel_scale = 1.0f;     ///< multiplies the uint8 pixels
  float regularization = 0.0f;  ///< L2 factor of the weight matrices that have one
  bool distort = false;         ///< random distortion of the images in training, where the network has one
  std::optional<PixelNormalization> normalization = std::nullopt;  ///< in place of the network's own, of colour images
  std::uint64_t record_count = 0;  ///< of the training set, once it is known: before the network is run to train
  std::uint64_t seed = 0;          ///< of the distortion, and of what else is drawn
};

/// What a graph is built for.
enum class Purpose {
  training,    ///< with the loss
  evaluation,  ///< up to the output, on images as they are
  summary,     ///< of what the layers make of the images of training
};

/// Initial values of a variable that are computed from the training set, not drawn.
struct ValuesOfData {
  std::string variable;
  std::int64_t max_records = 0;  ///< from the set's first records, so many where there are
  /// The values, row-major, from the images of those records, of Network::image.
  std::function<std::vector<float>(std::span<const std::uint8_t* const> images)> compute;
};

/// How each image is turned, enlarged or reduced, and moved at random in training (kernels/warp_images); 0: not so.
struct WarpSettings {
  double rotation = 0.0;   ///< degrees, to either side
  double zoom = 0.0;       ///< by factors from 1 - zoom to 1 + zoom
  double shift = 0.0;      ///< parts of the height and of the width, to either side
  std::uint64_t seed = 0;  ///< of the draws
};

/// How a batch's samples are mixed with each other in training (kernels/shared/mixing.h); 0: not so.
struct MixingSettings {
  double mixup = 0.0, cutmix = 0.0;  ///< a of the Beta(a, a) that lambda is drawn from
  std::uint64_t seed = 0;
};

struct Network {
  std::string name;  ///< for messages; users know it by its name in a program's list
  ImageShape image;  ///< of the records it takes
  /// Adds the layers from the records to the output [batch, outputs]. The first op returns the images
  /// [batch, height, width, channels]. With 1 or 3 channels, summaries can show them.
  std::function<Value(Graph& graph, Purpose purpose)> build_layers;
  std::vector<ValuesOfData> values_of_data = {};  ///< the other variables' are drawn
  WarpSettings warp = {};                         ///< of images, behind the first op
  MixingSettings mixing = {};                     ///< of images, behind that; the loss mixes targets alike
  bool sync_batch_norm = false;                   ///< batch norms take the batches of all towers for one, in training
};

/// Makes a network. Errors: usage, naming what it cannot take (images of another shape).
using MakeNetwork = Network (*)(const NetworkSettings& settings);

/// A network as a graph that is ready to run.
struct BuiltNetwork {
  /// A layer with variables, and its output behind its ReLU if one follows.
  struct Layer {
    std::string name;
    Value output;
  };

  Graph graph;
  Value input;                ///< the images as the first layer sees them, warped and mixed where they are
  Value output;               ///< [batch, outputs]
  Value loss;                 ///< [], the mean over the batch; for training with a task only
  std::vector<Layer> layers;  ///< for a summary only, when they can all be read
};

struct BuildSettings {
  std::int64_t batch_size = 1;
  Arithmetic arithmetic = Arithmetic::fp32;
  Purpose purpose = Purpose::training;
  DeviceKind device = DeviceKind::cpu;  ///< that the graph is to be run on
};

/// The one way from a network to a graph: its layers, the ops that warp and mix its images, for training the target and
/// the loss of `task`, and the passes (src/graph/passes.h). For a summary, and on CPUs, values are what the layers say.
/// Errors: failed (a value that no op reads; images to be warped or mixed that are none; an output of another size than
/// the task's); usage (sync_batch_norm without a batch norm; a loss that cannot mix targets).
BuiltNetwork build_network(const Network& network, const Task& task, const BuildSettings& settings);
/// The same without a loss, whatever the purpose.
BuiltNetwork build_network(const Network& network, const BuildSettings& settings);

std::int64_t parameter_count(const Graph& graph);
/// Multiplications, each with an addition, of weights with activations in a forward pass of one sample.
std::int64_t multiply_adds(const Graph& graph);

}  // namespace carillon
