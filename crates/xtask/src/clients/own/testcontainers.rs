//! Stands in for what starts containers, as far as rslock's tests use it: each is a `redis-server` of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What is to be started, and what its tests say of it: the server is what it is.
pub struct GenericImage;

impl GenericImage {
    pub fn new(_name: &str, _tag: &str) -> Self {
        Self
    }

    pub fn with_exposed_port(self, _port: core::ContainerPort) -> Self {
        self
    }

    pub fn with_wait_for(self, _condition: core::WaitFor) -> Self {
        self
    }
}

/// A server that ends with this.
pub struct ContainerAsync<Image> {
    child: Child,
    port: u16,
    _image: Image,
}

impl<Image> ContainerAsync<Image> {
    pub async fn get_host_port_ipv4(&self, _port: u16) -> Result<u16, String> {
        Ok(self.port)
    }

    pub async fn stop(&self) -> Result<(), String> {
        Command::new("kill").arg(self.child.id().to_string()).status().map(drop).map_err(|error| error.to_string())
    }
}

impl<Image> Drop for ContainerAsync<Image> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub mod core {
    pub struct ContainerPort;

    pub trait IntoContainerPort {
        fn tcp(self) -> ContainerPort;
    }

    impl IntoContainerPort for u16 {
        fn tcp(self) -> ContainerPort {
            ContainerPort
        }
    }

    pub struct WaitFor;

    impl WaitFor {
        pub fn message_on_stdout(_message: &str) -> Self {
            Self
        }
    }
}

pub mod runners {
    pub trait AsyncRunner: Sized {
        fn start(self) -> impl Future<Output = Result<super::ContainerAsync<Self>, String>>;
    }

    impl AsyncRunner for super::GenericImage {
        async fn start(self) -> Result<super::ContainerAsync<Self>, String> {
            super::start(self)
        }
    }
}

fn start<Image>(image: Image) -> Result<ContainerAsync<Image>, String> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--save", ""]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| error.to_string())?;
    for _ in 0..400 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(ContainerAsync { child, port, _image: image });
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Err("the server does not listen".to_owned())
}
