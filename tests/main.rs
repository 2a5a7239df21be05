
mod sandbox;
