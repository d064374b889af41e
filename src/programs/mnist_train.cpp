// mnist_train: trains a network on MNIST.
//
//   mpirun -np 4 mnist_train --data 'data/mnist/train-*' --train-dir runs/mnist
//   mnist_train --config jobs/recipes/mnist_fast.cfg --eval-data 'data/mnist/test-*'
#include "carillon/app/app.h"
#include "carillon/app/program.h"

int main(int argc, char** argv) {
  using namespace carillon;
  return run_app("mnist_train", argc, argv, [&](const Mpi& mpi) { return train(mnist_program(), argc, argv, mpi); });
}
